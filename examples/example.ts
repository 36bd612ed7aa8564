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

/** Waits for something that another process or a reader of events does. */
export async function eventually<T>(
  what: string,
  find: () => T | undefined | Promise<T | undefined>,
): Promise<T> {
  for (let tries = 0; tries < 300; tries++) {
    const found = await find();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${what} did not come in 30 seconds`);
}

/** Why a call was refused: its code and message. */
export async function refusalOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'not refused';
  } catch (error) {
    const { code = '', message } = error as { code?: string; message: string };
    return `${code} ${message}`;
  }
}
