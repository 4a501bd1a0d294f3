# SPDX-License-Identifier: Apache-2.0
"""How Sphinx makes the book; "make html" calls it on a copy, with pages of scripts/kernel-doc."""
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

project = "kvmm"
copyright = "its authors, Apache-2.0"
html_theme = "alabaster"
html_theme_options = {"page_width": "72em", "description": "Memory of KV caches"}
html_show_sphinx = False
highlight_language = "none"
primary_domain = "c"


class Links(SphinxTransform):
    """Pages are read as plain text, too: where they name pages and calls they get links here."""
    default_priority = 400
    PAGE = re.compile(r"(?:Documentation/)?\b([a-z-]+)\.rst\b|<kvmm/([a-z/]+)\.h>")
    PLAIN = (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.comment,
             addnodes.pending_xref, addnodes.desc_signature)

    def link(self, text, **kind):
        return addnodes.pending_xref("", nodes.inline(text, text), refdoc=self.env.docname,
                                     refexplicit=True, refwarn=False, **kind)

    def pages(self, text):
        at = 0
        for found in self.PAGE.finditer(text):
            page = found[1] or "api/kvmm-" + found[2].replace("/", "-")
            if page not in self.env.found_docs:
                continue
            yield nodes.Text(text[at:found.start()])
            yield self.link(found[0], refdomain="std", reftype="doc", reftarget="/" + page)
            at = found.end()
        yield nodes.Text(text[at:])

    def apply(self, **kwargs):
        for node in list(self.document.findall(nodes.Text)):
            if not any(isinstance(up, self.PLAIN) for up in ancestors(node)):
                node.parent.replace(node, list(self.pages(node.astext())))
        for node in list(self.document.findall(nodes.literal)):
            call = re.fullmatch(r"(kvmm_\w+)\(\)", node.astext())
            if call:
                ref = self.link(call[0], refdomain="c", reftype="func", reftarget=call[1])
                node.parent.replace(node, ref)
                ref[:] = [node]


def ancestors(node):
    while node.parent is not None:
        node = node.parent
        yield node


def setup(app):
    app.add_transform(Links)
