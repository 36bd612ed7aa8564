/**
 * Text that Salt interprets: a call, a reference or an encrypted block where others expect text. Text
 * from outside that has any of it becomes no value of a state, pillar, argument or file.
 */

/** Where a value goes. */
export type ValueDestination =
  /** An argument of a state, as it is: nothing is rendered or joined on the way. */
  | 'argument'
  /** Anything else: pillar, templates and files can cut, trim, join and convert it. */
  | 'pillar';

/** The first text in a value that Salt would interpret. */
export interface InterpretedText {
  /** Keys and indexes that lead to it. */
  readonly path: readonly (string | number)[];
  /** A requirement for a message. It contains nothing of the value. */
  readonly expected: string;
}

interface Mark {
  readonly form: RegExp;
  readonly expected: string;
}

/** Arguments of states are read by State.format_slots, from Salt 3000 to 3008 by the same prefix. */
const argumentMarks: readonly Mark[] = [
  {
    form: /^__slot__:/,
    expected: 'must not begin with __slot__:, which Salt replaces by the result of a function',
  },
];

/**
 * A template can join, trim or split a text, so a slot is refused at any place. Anybody can encrypt a
 * slot for a public key: `gpg` (salt.renderers.gpg) and `nacl` (salt.renderers.nacl) would decrypt it.
 * `config.get` resolves `sdb://` (salt.utils.sdb) in pillar, and functions that expect a path fetch
 * `salt://`.
 */
const pillarMarks: readonly Mark[] = [
  {
    form: /__slot__:/i,
    expected: 'must not contain __slot__:, which Salt replaces by the result of a function',
  },
  {
    form: /^\P{L}*sdb:\/\//iu,
    expected: 'must not begin with sdb://, which Salt replaces by a value of a database',
  },
  {
    form: /^\P{L}*salt:\/\//iu,
    expected: 'must not begin with salt://, which Salt replaces by a file of the master',
  },
  {
    form: /-----BEGIN PGP MESSAGE-----/i,
    expected: 'must not contain an encrypted PGP message, which a renderer of Salt decrypts',
  },
  {
    form: /NACL\[/i,
    expected: 'must not contain NACL[, which a renderer of Salt decrypts',
  },
];

/**
 * Finds the first text in a value, keys of maps included, that Salt would interpret.
 * @param value - JSON, or a value of the wire; `Map` objects too
 * @returns `undefined` if the value may be passed on
 */
export function findInterpretedText(
  value: unknown,
  destination: ValueDestination = 'pillar',
): InterpretedText | undefined {
  return find(value, destination === 'argument' ? argumentMarks : pillarMarks, []);
}

/** A text that may be passed on; `otherwise` in place of one that Salt would interpret. */
export function inertText(text: string, otherwise = ''): string {
  return findInterpretedText(text) === undefined ? text : otherwise;
}

function find(
  value: unknown,
  marks: readonly Mark[],
  path: readonly (string | number)[],
): InterpretedText | undefined {
  if (typeof value === 'string') return findInText(value, marks, path);
  // Salt decodes bytes before it looks for slots.
  if (value instanceof Uint8Array) {
    return findInText(Buffer.from(value).toString('latin1'), marks, path);
  }
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const found = find(item, marks, [...path, index]);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [key, item] of value instanceof Map ? value : Object.entries(value)) {
    const problem = find(key, marks, [...path, '…']);
    if (problem !== undefined) return problem;
    const found = find(item, marks, [...path, String(key)]);
    if (found !== undefined) return found;
  }
  return undefined;
}

function findInText(
  text: string,
  marks: readonly Mark[],
  path: readonly (string | number)[],
): InterpretedText | undefined {
  const mark = marks.find(({ form }) => form.test(text));
  return mark === undefined ? undefined : { path, expected: mark.expected };
}
