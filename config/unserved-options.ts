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

/** Option of Salt that has no effect in this master. */
export interface UnservedOption {
  /**
   * Consequence of ignoring the option. `not-served`: a feature is missing. `not-needed`: this
   * master does not need the option.
   */
  readonly kind: 'not-served' | 'not-needed';
  /** Text that follows the name of the option in a message: the consequence, and the advice. */
  readonly message: string;
  /** Alternative to the option, or the reason why this master does not need it. */
  readonly advice: string;
  /**
   * Whether the option only adjusts a detail of a feature. `migrate check` reports such options as
   * ignored.
   */
  readonly isDetail: boolean;
  /**
   * Whether the operator gets advice about this value. False for `null`, and for a value that needs
   * no advice, such as Salt's default.
   */
  isLost(setting: Setting): boolean;
}

const always = (): boolean => true;

const unserved: ReadonlyMap<string, UnservedOption> = new Map([
  ...rows(notServed, 'not-served', 'is not supported'),
  ...rows(notYet, 'not-served', 'is not supported yet'),
  ...rows(notNeeded, 'not-needed', 'has no effect'),
  ...minionOptions.map((name): [string, UnservedOption] => [
    name,
    {
      kind: 'not-needed',
      message: 'is an option of minions; masters do not read it',
      advice: 'masters do not read it',
      isDetail: true,
      isLost: always,
    },
  ]),
]);

/** Options of returners and similar modules. Their names have the form `<module>.<option>`. */
const ofModules: UnservedOption = {
  kind: 'not-served',
  message:
    'belongs to a Python module (a returner, a cache, a pillar), which this master cannot load',
  advice: 'remove it together with the module',
  isDetail: true,
  isLost: always,
};

/**
 * Returns the message about an unsupported option of Salt, or `undefined` if Salt has no such
 * option.
 */
export function findUnserved(name: string): UnservedOption | undefined {
  return unserved.get(name) ?? (/^[a-z_0-9]+\.[a-z_0-9.]+$/.test(name) ? ofModules : undefined);
}

/** Returns the names of all unsupported options. */
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

/** Converts a value to plain objects, because `isDeepStrictEqual` compares prototypes too. */
function plain(value: unknown): unknown {
  return structuredClone(toPlain(value));
}
