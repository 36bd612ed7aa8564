import { isDeepStrictEqual } from 'node:util';
import {
  type AdviceGroup,
  anyValue,
  minionOptions,
  notNeeded,
  notServed,
  notYet,
} from './advice.ts';
import { type Setting, toPlain } from './settings.ts';

/** An option of Salt's that has no effect here. */
export interface UnservedOption {
  /** `not-needed`: nothing is lost. */
  readonly kind: 'not-served' | 'not-needed';
  /** Text that follows the name of the option: its effect, and the advice. */
  readonly message: string;
  /** What to do instead, or why nothing is lost. */
  readonly advice: string;
  /** Whether it only sets how something works. */
  readonly isDetail: boolean;
  /** Whether this value asks for something that is not so here. */
  isLost(setting: Setting): boolean;
}

const always = (): boolean => true;

const unserved: ReadonlyMap<string, UnservedOption> = new Map([
  ...rows(notServed, 'not-served', 'is not served'),
  ...rows(notYet, 'not-served', 'is not served yet'),
  ...rows(notNeeded, 'not-needed', 'has no effect'),
  ...minionOptions.map((name): [string, UnservedOption] => [
    name,
    {
      kind: 'not-needed',
      message: 'is an option of minions; no master reads it',
      advice: 'no master reads it',
      isDetail: true,
      isLost: always,
    },
  ]),
]);

/** Options of returners and the like, which are named `<module>.<option>`. */
const ofModules: UnservedOption = {
  kind: 'not-served',
  message: 'belongs to a Python module (a returner, a cache, a pillar), and those do not run here',
  advice: 'remove it together with the module',
  isDetail: true,
  isLost: always,
};

/** What is to be said of an option of Salt's that is not served; `undefined`: Salt has none such. */
export function findUnserved(name: string): UnservedOption | undefined {
  return unserved.get(name) ?? (/^[a-z_0-9]+\.[a-z_0-9.]+$/.test(name) ? ofModules : undefined);
}

/** The names of all. */
export function unservedNames(): readonly string[] {
  return [...unserved.keys()];
}

function* rows(
  groups: readonly AdviceGroup[],
  kind: UnservedOption['kind'],
  fate: string,
): Generator<[name: string, option: UnservedOption]> {
  for (const { advice, isDetail = false, options } of groups) {
    for (const [name, usual] of Object.entries(options)) {
      const isLost = ({ value }: Setting): boolean =>
        value !== null && (usual === anyValue || !isDeepStrictEqual(plain(value), usual));
      yield [name, { kind, message: `${fate}: ${advice}`, advice, isDetail, isLost }];
    }
  }
}

/** With the prototypes of literals, which comparing looks at. */
function plain(value: unknown): unknown {
  return structuredClone(toPlain(value));
}
