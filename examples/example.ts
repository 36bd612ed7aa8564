/** What an example is, and how its steps are shown. */
import { spawnSync } from 'node:child_process';

/** Something that must be there before an example begins. */
export interface Need {
  /** A variable of the environment, or a program. */
  readonly name: string;
  readonly isThere: boolean;
  /** What to do where it is not: a Debian package, or a value. */
  readonly remedy: string;
}

export interface Example {
  readonly description: string;
  readonly needs: () => readonly Need[];
  /** Rejects at the first step that did not show what it should. */
  readonly run: (step: Step) => Promise<void>;
}

/**
 * Does one step and prints it. @returns what `work` returned
 * @throws Error if `isRight` says no
 */
export type Step = <T>(
  title: string,
  work: () => Promise<T>,
  isRight?: (value: T) => boolean,
) => Promise<T>;

/** A need that a variable of the environment is set. */
export function variable(name: string, remedy: string): Need {
  const isThere = (process.env[name] ?? '') !== '';
  return { name: `variable ${name}`, isThere, remedy };
}

/** A need of a program. @param debian - the package that has it */
export function program(name: string, debian: string): Need {
  const isThere = spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
  return { name: `program ${name}`, isThere, remedy: `Debian: ${debian}` };
}

/** The steps of an example, on standard output. */
export const printedStep: Step = async (title, work, isRight = () => true) => {
  process.stdout.write(`… ${title}\n`);
  const value = await work();
  const text = value === undefined ? '' : `  ${JSON.stringify(value)}\n`;
  const right = isRight(value);
  process.stdout.write(`${text}${right ? '✔' : '✘'} ${title}\n`);
  if (!right) throw new Error(`${title}: this is not what it should show`);
  return value;
};
