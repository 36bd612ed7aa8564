/** Defines examples, and prints their steps. */
import { spawnSync } from 'node:child_process';

/** A variable or program that an example requires. */
export interface Need {
  /** Name of the environment variable or program. */
  readonly name: string;
  readonly isThere: boolean;
  /** Remedy if the requirement is not met: a Debian package, or a value to set. */
  readonly remedy: string;
}

export interface Example {
  readonly description: string;
  readonly needs: () => readonly Need[];
  /** Runs the example. Rejects at the first step with an unexpected result. */
  readonly run: (step: Step) => Promise<void>;
}

/**
 * Performs a step and prints it.
 * @returns the result of `work`
 * @throws Error if `isRight` returns `false` for the result
 */
export type Step = <T>(
  title: string,
  work: () => Promise<T>,
  isRight?: (value: T) => boolean,
) => Promise<T>;

/** Returns the requirement that an environment variable is set. */
export function variable(name: string, remedy: string): Need {
  const isThere = (process.env[name] ?? '') !== '';
  return { name: `variable ${name}`, isThere, remedy };
}

/**
 * Returns the requirement that a program is installed.
 * @param debian - Debian package that contains the program
 */
export function program(name: string, debian: string): Need {
  const isThere = spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
  return { name: `program ${name}`, isThere, remedy: `Debian: ${debian}` };
}

/** Performs the steps of an example, and prints them to standard output. */
export const printedStep: Step = async (title, work, isRight = () => true) => {
  process.stdout.write(`… ${title}\n`);
  const value = await work();
  const text = value === undefined ? '' : `  ${JSON.stringify(value)}\n`;
  const right = isRight(value);
  process.stdout.write(`${text}${right ? '✔' : '✘'} ${title}\n`);
  if (!right) throw new Error(`${title}: unexpected result, see the output above`);
  return value;
};

/**
 * Waits until `find` returns a value, because another process or a reader of events needs time.
 * @throws Error after 120 seconds
 */
export async function eventually<T>(
  what: string,
  find: () => T | undefined | Promise<T | undefined>,
): Promise<T> {
  for (let tries = 0; tries < 1200; tries++) {
    const found = await find();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${what} did not happen within 120 seconds`);
}

/** Returns the code and message of the error with which a call was rejected. */
export async function refusalOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'not refused';
  } catch (error) {
    const { code = '', message } = error as { code?: string; message: string };
    return `${code} ${message}`;
  }
}
