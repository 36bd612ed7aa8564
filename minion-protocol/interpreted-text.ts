/**
 * Detects text that Salt would interpret as a call, a reference or an encrypted block, although
 * other programs treat it as plain text. Such text from untrusted sources must not become a value
 * of a state, pillar, argument or file.
 */

/** Kind of place in which a checked value will be used. */
export type ValueDestination =
  /**
   * Argument of a state. Salt reads the value unchanged: no template renders it or joins it with
   * other text.
   */
  | 'argument'
  /**
   * The value is used in pillar, in a template or in a file. Templates can cut, trim, join and
   * convert it.
   */
  | 'pillar';

/** The first text in a value that Salt would interpret. */
export interface InterpretedText {
  /**
   * Path to the text in the value: map keys and list indexes. If the text is a map key, the last
   * element is `…`.
   */
  readonly path: readonly (string | number)[];
  /** Requirement that the text violates, for error messages. It contains no part of the value. */
  readonly expected: string;
}

interface Mark {
  readonly form: RegExp;
  readonly expected: string;
}

/**
 * Patterns of texts that Salt interprets in arguments of states. Salt's `State.format_slots`
 * searches for the prefix `__slot__:` only, in all releases from 3000 to 3008.
 */
const argumentMarks: readonly Mark[] = [
  {
    form: /^__slot__:/,
    expected: 'must not begin with __slot__:, which Salt replaces by the result of a function',
  },
];

/**
 * Patterns of texts that Salt interprets in pillar, templates and files:
 *
 * - A template can join, trim or split a text, so `__slot__:` is rejected at any position.
 * - The renderers `gpg` (salt.renderers.gpg) and `nacl` (salt.renderers.nacl) decrypt PGP messages
 *   and `NACL[`. Anybody can encrypt a text with `__slot__:`, because this requires only a public
 *   key.
 * - `config.get` resolves `sdb://` (salt.utils.sdb) in pillar.
 * - Functions that expect a path fetch `salt://`.
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
 * Matches every text that one of {@link pillarMarks} matches, and some harmless texts. Nearly all
 * texts are harmless and do not match, so one test is sufficient for them.
 */
const anyMark = /__slot__:|-----BEGIN PGP MESSAGE-----|NACL\[|(?:sdb|salt):\/\//iu;

/**
 * Matches texts that contain `:`, `[` or `-----`. Every text that `anyMark` matches contains one of
 * these, so texts without them need only this faster test.
 */
const markCharacter = /[:[]|-----/;

/**
 * Finds the first text in a value, including the keys of maps, that Salt would interpret.
 * @param value - JSON or a wire value; may contain `Map` objects
 * @param destination - kind of place in which the value will be used; default: `pillar`, the
 * stricter check
 * @returns `undefined` if the value contains no such text
 */
export function findInterpretedText(
  value: unknown,
  destination: ValueDestination = 'pillar',
): InterpretedText | undefined {
  return find(value, destination === 'argument' ? argumentMarks : pillarMarks);
}

/**
 * Position of a text that Salt would interpret, for example `sdb://…`. `path` contains the keys and
 * indexes that lead to the text, the innermost first.
 */
interface Found {
  readonly path: (string | number)[];
  readonly expected: string;
}

function find(value: unknown, marks: readonly Mark[]): InterpretedText | undefined {
  const found = findWithin(value, marks);
  return found && { path: found.path.toReversed(), expected: found.expected };
}

function findWithin(value: unknown, marks: readonly Mark[]): Found | undefined {
  if (typeof value === 'string') return findInText(value, marks);
  if (typeof value !== 'object' || value === null) return undefined;
  // Salt converts bytes to text before it searches for slots.
  if (value instanceof Uint8Array) return findInText(Buffer.from(value).toString('latin1'), marks);
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      const found = below(index, findWithin(value[index], marks));
      if (found !== undefined) return found;
    }
    return undefined;
  }
  for (const [key, item] of value instanceof Map ? value : Object.entries(value)) {
    const problem = below('…', findWithin(key, marks));
    if (problem !== undefined) return problem;
    const found = below(key, findWithin(item, marks));
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * Appends a key or index to the path of a found text. The path is collected in reverse order,
 * beginning at the text.
 */
function below(element: unknown, found: Found | undefined): Found | undefined {
  found?.path.push(typeof element === 'number' ? element : String(element));
  return found;
}

function findInText(text: string, marks: readonly Mark[]): Found | undefined {
  if (!markCharacter.test(text) || !anyMark.test(text)) return undefined;
  const mark = marks.find(({ form }) => form.test(text));
  return mark === undefined ? undefined : { path: [], expected: mark.expected };
}
