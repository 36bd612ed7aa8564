import type { Static, TSchema } from 'typebox';
import { Type } from '#typebox';
import { Value } from '#typebox/value';

/** How the value of an option is checked. */
export interface OptionKind<T> {
  /** What is expected, in words for the operator. */
  readonly expected: string;
  /** Whether Salt joins it to `root_dir`. */
  readonly isPath: boolean;
  /** The value in its final form; `undefined` when it is not one of this kind. */
  parse(value: unknown): T | undefined;
}

const oneLine = Type.String({ minLength: 1, pattern: '^[^\\u0000\\r\\n]*$' });

/** True or false. */
export const flag: OptionKind<boolean> = kind(Type.Boolean(), 'true or false');

/** Text of one character or more, on one line. */
export const text: OptionKind<string> = kind(oneLine, 'text');

/** Text; a number becomes its decimal form. */
export const numericText: OptionKind<string> = {
  ...text,
  parse: (value) => text.parse(typeof value === 'number' ? String(value) : value),
};

/** A secret in plain text: Salt's `sdb://` addresses lead to modules of Salt's. */
export const passphrase: OptionKind<string> = {
  ...text,
  expected: 'a passphrase itself (sdb:// is not served)',
  parse: (value) => {
    const secret = text.parse(value);
    return secret?.startsWith('sdb://') ? undefined : secret;
  },
};

/** A path below `root_dir`. */
export const path: OptionKind<string> = { ...text, expected: 'a path', isPath: true };

/** A path below `root_dir`, or an address (`scheme://…`). */
export const pathOrUrl: OptionKind<string> = { ...path, expected: 'a path or an address' };

/** A protocol version, or `auto`. */
export const authVersion: OptionKind<'auto' | 0 | 1 | 2 | 3> = kind(
  Type.Union([
    Type.Literal('auto'),
    Type.Literal(0),
    Type.Literal(1),
    Type.Literal(2),
    Type.Literal(3),
  ]),
  'auto, 0, 1, 2 or 3',
);

/** A list of texts; a single one, as Salt takes it too, is a list of one. */
export const textList: OptionKind<readonly string[]> = {
  expected: 'a text or a list of texts',
  isPath: false,
  parse: (value) => {
    if (value === null) return [];
    const list: unknown[] = Array.isArray(value) ? value : [value];
    const texts = list.map((item) => numericText.parse(item));
    return texts.every((item) => item !== undefined) ? texts : undefined;
  },
};

/** A whole number. */
export function integer(minimum: number, maximum: number): OptionKind<number> {
  const schema = Type.Integer({ minimum, maximum });
  return kind(schema, `a whole number from ${minimum} to ${maximum}`);
}

/** A number, with or without fraction. */
export function number(minimum: number, maximum: number): OptionKind<number> {
  return kind(Type.Number({ minimum, maximum }), `a number from ${minimum} to ${maximum}`);
}

/** A length of time, with or without fraction. */
export function duration(unit: 'seconds' | 'minutes' | 'hours'): OptionKind<number> {
  return kind(Type.Number({ minimum: 0, maximum: 1e9 }), `a number of ${unit}, 0 or more`);
}

/** One of a few words, in upper or lower case. */
export function oneOf<const T extends string>(words: readonly T[], note = ''): OptionKind<T> {
  const parse = (value: unknown): T | undefined =>
    words.find((word) => typeof value === 'string' && word.toLowerCase() === value.toLowerCase());
  return { expected: `one of ${words.join(', ')}${note}`, isPath: false, parse };
}

function kind<S extends TSchema>(schema: S, expected: string): OptionKind<Static<S>> {
  const parse = (value: unknown): Static<S> | undefined =>
    Value.Check(schema, value) ? value : undefined;
  return { expected, isPath: false, parse };
}
