"""The native tier: a second back end, from Programs to machine code through LLVM, for small programs and loops."""
