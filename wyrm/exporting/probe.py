"""A program that compiles an empty function for a target: LLVM ends the process for names that do not fit together.

Its arguments are the triple, the processor and the features. It imports nothing of wyrm.
"""

import sys

import llvmlite.binding as llvm

if __name__ == "__main__":
    triple, cpu, features = sys.argv[1:]
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
    machine.emit_object(llvm.parse_assembly("define void @f() { ret void }"))
