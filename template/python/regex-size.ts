/** The size of the program that a linear engine makes of a regular expression, before it is made. */

import type { WorkMeter } from '#runtime';

/** Size of a program. */
export interface ProgramSize {
  readonly instructions: number;
  /** Instructions after which the engine follows two ways. */
  readonly branches: number;
  /** Sets that are made of tables of Unicode: `\w`, `\d`, `\s` and their opposites. */
  readonly tables: number;
}

/** Largest size of one pattern from outside. A table counts as sixteen instructions. */
export const maxProgramSize = 2000;
/** Largest length of one pattern from outside, in characters. */
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
 * Adds up the size of a program while its expression is read. Repetitions multiply what they
 * repeat. With a meter, it refuses a pattern as soon as its size exceeds {@link maxProgramSize}.
 */
export class ProgramSizer {
  readonly #meter: WorkMeter | undefined;
  readonly #open: Piece[] = [];
  #group = nothing();
  /** The piece that a repetition after it repeats. */
  #last = nothing();
  #tables = 0;

  /** @throws Error of the meter for a pattern that is too long */
  constructor(pattern: string, meter: WorkMeter | undefined) {
    this.#meter = meter;
    if (pattern.length > maxPatternLength) meter?.refuse(part, maxPatternLength, 'characters');
    meter?.spend(part, 1 + pattern.length * stepsOfCharacter);
  }

  get size(): ProgramSize {
    const { instructions, branches } = this.#whole();
    return { instructions, branches, tables: this.#tables };
  }

  /** Counts a character or a set. @param written the set in the engine's syntax */
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

  /** @param most `undefined`: without end */
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

  /** Counts the program as compiled. @throws Error of the meter */
  finish(): void {
    const total = this.#total();
    this.#meter?.spend(part, stepsOfPattern + total * stepsOfInstruction);
    this.#meter?.hold('programs of regular expressions', total * bytesOfInstruction);
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

/** Most steps of matching one text from outside. */
export const maxMatchingSteps = 1_000_000;

/** Steps of matching a text of this length; `matchingSteps(size)` for one text. */
export function matchingSteps({ instructions, branches }: ProgramSize): (length: number) => number {
  const ofCharacter = branches === 0 ? 1 : 1 + 2 * branches + instructions / 4;
  return (length) => 20 + length * ofCharacter;
}
