/**
 * Estimates the size of RE2's program for a regular expression, before the expression is compiled.
 */

import type { WorkMeter } from '#runtime';

/** Size of a compiled regular expression. */
export interface ProgramSize {
  readonly instructions: number;
  /** Number of instructions with two successors. RE2 follows both. */
  readonly branches: number;
  /** Number of sets that are compiled from Unicode tables: `\w`, `\d`, `\s` and their opposites. */
  readonly tables: number;
}

/**
 * Maximum size of one pattern from a client or minion, in instructions. A Unicode table counts as
 * sixteen.
 */
export const maxProgramSize = 2000;
/** Maximum length of one pattern from a client or minion, in characters. */
const maxPatternLength = 16_384;

const part = 'a regular expression';
const sizeOfTable = 16;
const stepsOfInstruction = 400;
const stepsOfPattern = 5000;
const bytesOfInstruction = 800;
const stepsOfCharacter = 20;

interface Piece {
  instructions: number;
  branches: number;
}

const nothing = (): Piece => ({ instructions: 0, branches: 0 });

/**
 * Computes the size of a program while its expression is parsed. A repetition multiplies the size
 * of the repeated piece. With a meter, a pattern is rejected as soon as its size exceeds
 * {@link maxProgramSize}.
 */
export class ProgramSizer {
  readonly #meter: WorkMeter | undefined;
  readonly #open: Piece[] = [];
  #group = nothing();
  /**
   * Size of the piece that was added last. If a quantifier such as `*` follows, this size is
   * multiplied.
   */
  #last = nothing();
  #tables = 0;

  /** @throws the meter's error for a pattern that is too long */
  constructor(pattern: string, meter: WorkMeter | undefined) {
    this.#meter = meter;
    if (pattern.length > maxPatternLength) meter?.refuse(part, maxPatternLength, 'characters');
    meter?.spend(part, 1 + pattern.length * stepsOfCharacter);
  }

  get size(): ProgramSize {
    const { instructions, branches } = this.#whole();
    return { instructions, branches, tables: this.#tables };
  }

  /**
   * Adds the size of one character or character set of the pattern.
   * @param written - the character or set in the engine's syntax
   */
  atom(written: string): void {
    this.#add({ instructions: 1, branches: 0 });
    this.#tables += written.match(/\\[pP]\{/g)?.length ?? 0;
  }

  open(): void {
    this.#settle();
    this.#open.push(this.#group);
    this.#group = nothing();
    this.#check();
  }

  close(): void {
    this.#settle();
    const { instructions, branches } = this.#group;
    this.#group = this.#open.pop() ?? nothing();
    this.#add({ instructions: instructions + 2, branches });
  }

  alternative(): void {
    this.#add({ instructions: 1, branches: 1 });
  }

  /**
   * Multiplies the size of the last piece of the pattern, because a quantifier follows it.
   * @param least - minimum number of repetitions
   * @param most - maximum number of repetitions; `undefined`: no maximum
   */
  repeat(least: number, most: number | undefined): void {
    const { instructions, branches } = this.#last;
    const times = Math.max(most ?? least + 1, 1);
    const choices = most === undefined ? 1 : most - least;
    this.#last = {
      instructions: instructions * times + choices,
      branches: branches * times + choices,
    };
    this.#check();
  }

  /**
   * Counts the time and memory for compiling the program.
   * @throws the meter's error
   */
  finish(): void {
    const total = this.#total();
    this.#meter?.spend(part, stepsOfPattern + total * stepsOfInstruction);
    this.#meter?.hold('compilation of regular expressions', total * bytesOfInstruction);
  }

  #add(piece: Piece): void {
    this.#settle();
    this.#last = piece;
    this.#check();
  }

  #settle(): void {
    this.#group.instructions += this.#last.instructions;
    this.#group.branches += this.#last.branches;
    this.#last = nothing();
  }

  #whole(): Piece {
    const sum = nothing();
    for (const { instructions, branches } of [...this.#open, this.#group, this.#last]) {
      sum.instructions += instructions;
      sum.branches += branches;
    }
    return sum;
  }

  #total(): number {
    return this.#whole().instructions + this.#tables * sizeOfTable;
  }

  #check(): void {
    const { instructions } = this.#group;
    const total = instructions + this.#last.instructions + this.#tables * sizeOfTable;
    if (total + this.#open.length > maxProgramSize) {
      this.#meter?.refuse(part, maxProgramSize, 'instructions');
    }
  }
}

/** Maximum number of steps for matching one text from a client or minion. */
export const maxMatchingSteps = 1_000_000;

/** Returns a function that estimates the steps for matching a text of the given length. */
export function matchingSteps({ instructions, branches }: ProgramSize): (length: number) => number {
  const ofCharacter = branches === 0 ? 1 : 1 + 2 * branches + instructions / 4;
  return (length) => 20 + length * ofCharacter;
}
