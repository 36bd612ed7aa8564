/** Options in the section `saltbridge: bridge: murano:`. */

import { createPublicKey, type KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import Type from 'typebox';
import { BridgeOptionsError, parseSection, type SectionProblem } from '#heat-bridge';

const Section = Type.Object(
  {
    keys: Type.Optional(Type.Record(Type.String(), Type.String({ minLength: 1 }))),
    unsigned: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
);

export interface MuranoOptions {
  /** Public keys that verify the signatures of execution plans, by project. */
  readonly keys: ReadonlyMap<string, KeyObject>;
  /** Whether projects without a key may send unsigned execution plans. */
  readonly acceptsUnsigned: boolean;
}

/**
 * Parses the section into options.
 * @param base - directory to which relative file names refer
 * @throws BridgeOptionsError
 */
export function readMuranoOptions(given: unknown, base: string): MuranoOptions {
  const { keys = {}, unsigned = false } = parseSection('bridge:murano', Section, given ?? {});
  const read = new Map<string, KeyObject>();
  const problems: SectionProblem[] = [];
  for (const [project, file] of Object.entries(keys)) {
    try {
      read.set(project, createPublicKey(readFileSync(path.resolve(base, file))));
    } catch {
      const key = `saltbridge:bridge:murano:keys:${project}`;
      problems.push({ key, problem: `${file} is not a public key in PEM` });
    }
  }
  if (problems.length > 0) throw new BridgeOptionsError(problems);
  return { keys: read, acceptsUnsigned: unsigned };
}
