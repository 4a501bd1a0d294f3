# SPDX-License-Identifier: Apache-2.0
#
# The top of the build: options, configuration, libraries, installation.
# Folders list their objects (format: scripts/Makefile.build); "make help"
# lists the targets.

VERSION		:= 0.2.0
SONAME		:= libkvmm.so.0

MAKEFLAGS	+= -rR --no-print-directory

all:
.PHONY: all FORCE
FORCE:

# ---------------------------------------------------------------------------
# O=dir: start again inside the object tree; there the paths of all products
# are relative to the current directory, and those of sources to $(srctree).

this-makefile	:= $(abspath $(lastword $(MAKEFILE_LIST)))
objtree		:= $(if $(O),$(abspath $(O)),$(CURDIR))

ifneq ($(objtree),$(CURDIR))

goals := $(or $(MAKECMDGOALS),all)

.PHONY: $(goals) enter-objtree
$(goals): enter-objtree
	@:
enter-objtree:
	@mkdir -p $(objtree)
	@$(MAKE) -C $(objtree) -f $(this-makefile) O= $(goals)
$(this-makefile): ;

else

srctree := $(patsubst %/,%,$(dir $(this-makefile)))
ifeq ($(srctree),$(CURDIR))
srctree := .
endif

include $(srctree)/scripts/Makefile.lib

lib-folders	:= $(shell sed -n 's/^folder \([a-z]*\):.*/\1/p' \
			$(srctree)/Documentation/layers.txt)
room-folders	:= $(shell sed -n 's/^house [a-z]*: *//p' $(srctree)/Documentation/layers.txt)
prog-folders	:= tools samples tests swcuda testing

# ---------------------------------------------------------------------------
# Configuration. Nothing but make and awk is needed: .config is a copy of a
# defconfig until somebody edits it, and what it does not mention is taken
# from configs/defconfig.

defconfigs	:= $(notdir $(wildcard $(srctree)/configs/*defconfig))
no-config-goals	:= help clean distclean deps demo check check-long menuconfig $(defconfigs)
configured	:= $(if $(filter-out $(no-config-goals),$(or $(MAKECMDGOALS),all)),y)

ifdef configured
config-error := $(shell $(srctree)/scripts/mkconfig $(srctree) "$(DEBUG)" 2>&1)
$(if $(config-error),$(error $(config-error)))
include include/generated/auto.conf
endif

.PHONY: menuconfig
menuconfig:
	@command -v kconfig-mconf >/dev/null || { \
		echo "menuconfig: kconfig-mconf not found; install the package" \
		     "kconfig-frontends, or edit .config" >&2; exit 1; }
	@cd $(srctree) && KCONFIG_CONFIG=$(objtree)/.config kconfig-mconf Kconfig

.PHONY: $(defconfigs)
$(defconfigs):
	@cp $(srctree)/configs/$@ .config
	@echo "  CONFIG  .config from configs/$@"

# ---------------------------------------------------------------------------
# Tools and flags. CFLAGS and LDFLAGS belong to the user and come last.

default-tool	= $(if $(filter default undefined,$(origin $(1))),$(eval $(1) := $(2)))
$(call default-tool,CC,gcc)
$(call default-tool,LD,ld)
$(call default-tool,AR,ar)
NM		?= nm
OBJCOPY		?= objcopy
PKG_CONFIG	?= pkg-config

KVFLAGS	:= -std=gnu11 $(if $(CONFIG_DEBUG),-O1,-O2) -g$(if $(SAN),1) -pthread -fPIC \
	   -fvisibility=hidden -fno-strict-aliasing \
	   -fmacro-prefix-map=$(srctree)/= \
	   -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
	   -Wmissing-prototypes -Wstrict-prototypes \
	   -Iinclude $(if $(filter-out .,$(srctree)),-I$(srctree)/include) \
	   -include include/generated/autoconf.h \
	   $(if $(CONFIG_DEBUG),-DKVMM_DEBUG=1)

ifneq ($(filter 1,$(W)),)
KVFLAGS	+= -Wshadow -Wundef -Wpointer-arith -Wcast-align -Wredundant-decls \
	   -Wformat=2 -Wvla -Wunused-macros
endif
ifneq ($(filter 1,$(WERROR)),)
KVFLAGS	+= -Werror
endif
ifdef SAN
SANFLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
# gcc says that its ThreadSanitizer does not see fences. What they order is read and written as atomics
# only (include/kv/atomic.h), so it reports no race there that is none.
SANFLAGS += $(if $(findstring thread,$(SAN)),$(shell $(CC) -Werror -Wtsan -x c -fsyntax-only \
	/dev/null 2>/dev/null && echo -Wno-tsan))
# The macro that gcc has for it.
SANFLAGS += $(if $(findstring clang,$(CC)),$(if $(findstring address,$(SAN)),-D__SANITIZE_ADDRESS__=1))
endif
ifdef COVERAGE
SANFLAGS := --coverage -O0
endif

# To be copied elsewhere with its libraries beside it.
ifneq ($(filter 1,$(BUNDLE)),)
RPATH	:= -Wl,-rpath,'$$ORIGIN',--disable-new-dtags
endif

lto	:= $(findstring -flto,$(CFLAGS))

KVLIBS	:= -lpthread -ldl -lm

# Probes need a header; what is built without it has none.
have-sdt := $(if $(CONFIG_USDT),$(shell echo '$(pound)include <sys/sdt.h>' | \
	      $(CC) -E -x c - >/dev/null 2>&1 && echo y))
KVFLAGS	+= $(if $(have-sdt),-DKV_USDT=1)
$(if $(configured),$(if $(CONFIG_USDT),$(if $(have-sdt),,$(if $(silent),,\
	$(info $()  NOTE    no <sys/sdt.h>: built without static probes)))))

# The tools bring jemalloc along; the library only uses it where it finds it
# in the process. Sanitizers must see every allocation themselves.
TOOLLIBS := $(if $(SAN),,-Wl,--no-as-needed -ljemalloc)

# One a library that programs link: itself, and that for their tests.
pc-files := kvmm.pc $(if $(wildcard $(srctree)/testing/Makefile),kvmm-testing.pc)
cmake-files := $(patsubst $(srctree)/share/cmake/%.in,%,$(wildcard $(srctree)/share/cmake/*.in))

include $(srctree)/scripts/Makefile.build
include $(srctree)/scripts/Makefile.check

# ---------------------------------------------------------------------------
# The library in its three forms.

.PHONY: libs tools samples tests
all: libs tools samples $(shlibs) $(alibs)
libs: $(SONAME) libkvmm.so libkvmm.a
tools: $(tools-prog)
samples: $(samples-prog)
tests: $(test-progs) $(shlibs) $(alibs)

# Per-thread data has destructors inside the library: it must stay mapped
# after dlclose(). Sanitizer run-times come with the executable, so only plain
# builds can insist on having every symbol defined.
quiet_cmd_ld_so = LD      $@
      cmd_ld_so = $(CC) -shared -o $@ $(lib-objs) $(SANFLAGS) $(RPATH) $(LDFLAGS) \
		  -Wl,-soname,$(SONAME),-z,nodelete$(if $(SAN),,$(comma)-z$(comma)defs) \
		  -Wl,--version-script=$(srctree)/scripts/kvmm.map $(KVLIBS)

$(SONAME): $(lib-objs) $(srctree)/scripts/kvmm.map FORCE
	$(call if_changed,ld_so)

quiet_cmd_symlink = LN      $@
      cmd_symlink = ln -sf $(<F) $@

libkvmm.so: $(SONAME)
	$(call cmd,symlink)

# One object, in which everything that is not exported has become local. With link-time optimisation
# it is optimised here: it holds machine code, which any compiler's programs can be linked with.
ld-r	:= $(if $(lto),$(CC) $(CFLAGS) -r -nostdlib \
	   $(if $(findstring clang,$(shell $(CC) --version)),,-flinker-output=nolto-rel),$(LD) -r)
quiet_cmd_ld_r = LD      $@
      cmd_ld_r = $(ld-r) -o $@ $(filter %.o,$^) && $(OBJCOPY) --localize-hidden $@

libkvmm.o: $(lib-objs) FORCE
	$(call if_changed,ld_r)

quiet_cmd_ar = AR      $@
      cmd_ar = rm -f $@ && $(AR) rcs$(ARFLAGS_$@) $@ $(filter %.o,$^)

libkvmm.a: %.a: %.o FORCE
	$(call if_changed,ar)

# With what it is compared with, for tests and for tools that may look inside: thin, all symbols
# visible to the linker.
ARFLAGS_libkvmm-internal.a := T
libkvmm-internal.a: $(lib-objs) $(research-objs) FORCE
	$(call if_changed,ar)

# ---------------------------------------------------------------------------
# Installation

prefix		?= /usr/local
bindir		?= $(prefix)/bin
libdir		?= $(prefix)/lib
includedir	?= $(prefix)/include
mandir		?= $(prefix)/share/man
docdir		?= $(prefix)/share/doc/kvmm

# With their folders, as they point at each other; a link names a commit's file only here.
doc-files := $(patsubst $(srctree)/%,%,$(wildcard $(addprefix $(srctree)/,README.md CHANGELOG.md \
		$(foreach d,Documentation Documentation/*,$d/*.rst $d/*.png) \
		$(foreach d,samples samples/*,$d/*.[ch] $d/*.ptx))))

quiet_cmd_pc = GEN     $@
      cmd_pc = sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(libdir)|' \
		   -e 's|@includedir@|$(includedir)|' -e 's|@version@|$(VERSION)|' \
		   -e 's|@libs@|$(KVLIBS)|' -e 's|@soname@|$(SONAME)|' \
		   -e "s|@include@|`realpath -m --relative-to=$(libdir) $(includedir)`|" $< > $@

$(pc-files): %.pc: $(srctree)/%.pc.in FORCE
	$(call if_changed,pc)
$(cmake-files): %.cmake: $(srctree)/share/cmake/%.cmake.in FORCE
	$(call if_changed,pc)

# Manual pages are what the tools say of themselves; commands with a help of their own:
man-pages := $(patsubst tools/%,man/%.1,$(tools-prog))
man-commands_kvmm-dump := snapshot record report
man-commands_kvmm-defrag := --live

quiet_cmd_man = MAN     $@
      cmd_man = mkdir -p man && $(srctree)/scripts/mkman $(VERSION) $< \
		$(man-commands_$(notdir $<)) > $@

$(man-pages): man/%.1: tools/% $(srctree)/scripts/mkman
	$(call cmd,man)

# Those of calls, of what headers say; kvmm.7 is written last.
quiet_cmd_man3 = MAN     man/*.3
      cmd_man3 = mkdir -p man && $(srctree)/scripts/mkman3 $(VERSION) $(srctree)/include man

man/kvmm.7: $(srctree)/scripts/mkman3 $(srctree)/scripts/kernel-doc \
		$(wildcard $(srctree)/include/kvmm/*.h $(srctree)/include/kvmm/ext/*.h)
	$(call cmd,man3)

# Where there are calls: a tree with a part of the headers has none of these pages.
call-pages := $(if $(wildcard $(srctree)/include/kvmm/kvmm.h),man/kvmm.7)
.PHONY: man
man: $(man-pages) $(call-pages)

# The book and the reference, of pages and of what headers say; made of a copy, where both are.
.PHONY: html
SPHINX		?= sphinx-build
html:
	@if ! command -v $(SPHINX) >/dev/null; then \
		echo "html: skipped, no $(SPHINX) (Debian's python3-sphinx)"; exit 0; fi; \
	rm -rf build/book && mkdir -p build/book/src && \
	cp -r $(srctree)/Documentation/. build/book/src && mkdir build/book/src/api && \
	cp -r $(srctree)/samples build/book && \
	$(srctree)/scripts/kernel-doc $(srctree)/include build/book/src/api && \
	$(srctree)/scripts/metrics-doc $(srctree) $(CC) >build/book/src/api/metrics.rst && \
	$(SPHINX) -q -W --keep-going -d build/book/trees build/book/src build/book/html && \
	echo "build/book/html/index.html"

.PHONY: install
install: share-files := $(wildcard $(srctree)/share/prometheus/kvmm.rules.yml \
			$(srctree)/share/grafana/kvmm.json)
install: completion := $(wildcard $(srctree)/share/bash-completion/kvmm)
install: completion-dir := $(prefix)/share/bash-completion/completions
install: libs tools $(installed-progs) man $(shlibs) $(alibs) $(pc-files) $(cmake-files)
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/pkgconfig \
		$(DESTDIR)$(includedir)/kvmm/ext $(addprefix $(DESTDIR)$(mandir)/man,1 $(if $(call-pages),3 7))
	install -m 755 $(SONAME) $(DESTDIR)$(libdir)
	ln -sf $(SONAME) $(DESTDIR)$(libdir)/libkvmm.so
	$(if $(shlibs),install -m 755 $(shlibs) $(DESTDIR)$(libdir))
	install -m 644 libkvmm.a $(alibs) $(DESTDIR)$(libdir)
	install -m 644 $(pc-files) $(DESTDIR)$(libdir)/pkgconfig
	$(if $(cmake-files),install -d $(DESTDIR)$(libdir)/cmake/kvmm)
	$(if $(cmake-files),install -m 644 $(cmake-files) $(DESTDIR)$(libdir)/cmake/kvmm)
	install -m 644 $(wildcard $(srctree)/include/kvmm/*.h) $(DESTDIR)$(includedir)/kvmm
	$(foreach h,$(wildcard $(srctree)/include/kvmm/ext/*.h),install -m 644 $h \
		$(DESTDIR)$(includedir)/kvmm/ext &&) true
	$(if $(tools-prog),install -m 755 $(installed-progs) $(research-progs) $(DESTDIR)$(bindir))
	$(foreach f,$(doc-files),install -D -m 644 $(srctree)/$f $(DESTDIR)$(docdir)/$f &&) true
	$(if $(share-files),install -d $(DESTDIR)$(prefix)/share/kvmm)
	$(if $(share-files),install -m 644 $(share-files) $(DESTDIR)$(prefix)/share/kvmm)
	$(if $(man-pages),install -m 644 $(man-pages) $(DESTDIR)$(mandir)/man1)
	$(if $(call-pages),install -m 644 man/*.3 $(DESTDIR)$(mandir)/man3)
	$(if $(call-pages),install -m 644 $(call-pages) $(DESTDIR)$(mandir)/man7)
	$(if $(completion),install -d $(DESTDIR)$(completion-dir))
	$(if $(completion),install -m 644 $(completion) $(DESTDIR)$(completion-dir))
	$(if $(completion),$(foreach t,$(notdir $(tools-prog)),ln -sf kvmm \
		$(DESTDIR)$(completion-dir)/$t &&) true)

# ---------------------------------------------------------------------------
# Cleaning, in the folders of the build only.

.PHONY: clean distclean
clean:
	@echo "  CLEAN   $(if $(filter .,$(srctree)),.,$(objtree))"
	@find $(wildcard $(lib-folders) $(prog-folders) research) \
		\( -name '*.[ois]' -o -name '.*.cmd' -o -name '.*.d' \
		   -o -name '*.gcno' -o -name '*.gcda' \) -delete
	@rm -f $(all-progs) $(shlibs) $(alibs) $(alibs:.a=.o) libkvmm.* libkvmm-internal.a \
		$(pc-files) $(cmake-files) .*.cmd
	@rm -rf include/generated build man

distclean: clean
	@rm -f .config

# ---------------------------------------------------------------------------

.PHONY: help
help:
	@sed -n '/^=/,$$p' $(srctree)/scripts/help.txt | sed 1d

endif # objtree
