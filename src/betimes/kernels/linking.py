"""Kernels are translated one by one, and optimised together, once for each entry.

Numba optimises a function when it is compiled, with all that it calls, and again in each of its callers. The libraries
here leave that out: that of a kernel is a `Fragment`, of LLVM's plain input; that of an entry takes in all fragments
that it calls, directly or not, makes them private, so that code inlined everywhere is dropped, and optimises.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import binding as llvm
from numba.core import typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass


class Fragment(JITCodeLibrary):
    """A kernel's code as translated; no machine code is made of it alone."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Let others link it as it is."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        self._ensure_finalized()
        return self._final_module


class Whole(JITCodeLibrary):
    """An entry's code together with that of all kernels that it calls."""

    lean = False

    def finalize(self) -> None:
        """Link, optimise, and make machine code."""
        found = dict.fromkeys(self._linking_libraries)
        waiting = list(found)
        while waiting:
            library = waiting.pop()
            more = library._linking_libraries if isinstance(library, Fragment) else ()
            waiting += [each for each in more if each not in found]
            found |= dict.fromkeys(more)
        self._linking_libraries = list(found)
        super().finalize()

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage == llvm.Linkage.linkonce_odr:
                function.linkage = "internal"
        if not self.lean:
            super()._optimize_final_module()
            return
        # Numba optimises twice: first a little, so that more counting of references can be left out. Here is none.
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class LeanWhole(Whole):
    """Of a lean kernel."""

    lean = True


@register_pass(mutates_CFG=False, analysis_only=True)
class OfferFragment(LoweringPass):
    """Let other kernels call this one: the last step of Numba's own lowering, which would make machine code first."""

    _name = "offer_fragment"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> Any:
        """Register the lowered function under an object that stands for it, and cannot be called."""
        lowered, library = state["cr"], state.library
        library._ensure_finalized()
        stands_for = vars(numba)["_dynfunc"].make_function(
            lowered.fndesc.lookup_module(), state.func_id.func_qualname, "", 0, lowered.env, (library,)
        )
        state.targetctx.insert_user_function(stands_for, lowered.fndesc, [library])
        state["cr"] = lowered._replace(cfunc=stands_for)
        return True


def _begin(state: Any, library: type[JITCodeLibrary]) -> None:
    state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
    state.library.enable_object_caching()
    state.flags.no_compile = library is Fragment


def _lean_passes(state: Any) -> PassManager:
    """The passes of Numba that plain loops over numbers and records need: it has twice as many."""
    passes = PassManager("kernel")
    passes.add_pass(untyped_passes.TranslateByteCode, "bytecode")
    passes.add_pass(untyped_passes.FixupArgs, "arguments")
    passes.add_pass(untyped_passes.IRProcessing, "variables")
    passes.add_pass(untyped_passes.ReconstructSSA, "static single assignment")
    passes.add_pass(typed_passes.NopythonTypeInference, "types")
    passes.add_pass(typed_passes.PreLowerStripPhis, "phi nodes")
    passes.add_pass(typed_passes.IRLegalization, "legal form")
    _finish(state, passes)
    return passes


def _finish(state: Any, passes: PassManager) -> None:
    passes.add_pass(typed_passes.NativeLowering, "lowering")
    if state.flags.no_compile:
        passes.add_pass(OfferFragment, "fragment")
    passes.add_pass(typed_passes.NoPythonBackend, "result")
    passes.finalize()


class KernelFlags(Flags):
    """Numba's options of one kernel, compared by those that are set.

    Numba looks up the meaning of its operations and functions by these options, among other things, and would compare
    all forty each time.
    """

    def __hash__(self) -> int:
        return hash(frozenset(self._values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelFlags) and self._values == other._values


class KernelCompiler(CompilerBase):
    """Of a kernel, an entry or a hook."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.state.flags = KernelFlags(self.state.flags)


class LeanFragmentCompiler(KernelCompiler):
    """Of a kernel, without what Numba does for comprehensions, array expressions and the like."""

    def define_pipelines(self) -> list[PassManager]:
        """The one pipeline."""
        _begin(self.state, Fragment)
        return [_lean_passes(self.state)]


class LeanEntryCompiler(KernelCompiler):
    """Of an entry, likewise."""

    def define_pipelines(self) -> list[PassManager]:
        """The one pipeline."""
        _begin(self.state, LeanWhole)
        return [_lean_passes(self.state)]


class FragmentCompiler(KernelCompiler):
    """Of a kernel that may use all of Numba."""

    def define_pipelines(self) -> list[PassManager]:
        """The one pipeline."""
        _begin(self.state, Fragment)
        return [_all_passes(self.state)]


class EntryCompiler(KernelCompiler):
    """Of an entry that may use all of Numba."""

    def define_pipelines(self) -> list[PassManager]:
        """The one pipeline."""
        _begin(self.state, Whole)
        return [_all_passes(self.state)]


def _all_passes(state: Any) -> PassManager:
    passes = PassManager("user's kernel")
    passes.passes.extend(DefaultPassBuilder.define_untyped_pipeline(state).passes)
    passes.passes.extend(DefaultPassBuilder.define_typed_pipeline(state).passes)
    passes.add_pass(typed_passes.NoPythonSupportedFeatureValidation, "supported features")
    passes.add_pass(typed_passes.IRLegalization, "legal form")
    _finish(state, passes)
    return passes
