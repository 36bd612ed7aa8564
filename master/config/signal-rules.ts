import { isSpecificTagGlob } from '../../acl/index.ts';
import type { OptionKind } from './option-kinds.ts';
import type { SignalRule } from './options.ts';
import { toPlain } from './plain-data.ts';

const names: ReadonlySet<string> = new Set([
  'name',
  'tag',
  'minions',
  'schema',
  'bytes',
  'rate',
  'expires',
]);

/** A list of maps with `tag`; whom they are for and what is permitted of them may stand beside it. */
export const signalRules: OptionKind<readonly SignalRule[]> = {
  expected:
    'a list of maps, each with tag (a glob with a letter or a digit of its own) and, if not all minions are meant, minions (a glob on ids); name, schema, bytes, rate and expires may be there as well',
  isPath: false,
  parse: (value) => {
    if (!Array.isArray(value)) return undefined;
    const rules = value.map(toRule).filter((rule) => rule !== undefined);
    return rules.length === value.length ? rules : undefined;
  },
};

function toRule(value: unknown): SignalRule | undefined {
  const fields = fieldsOf(value);
  if (fields === undefined || [...fields.keys()].some((name) => !names.has(name))) return undefined;
  const tag = fields.get('tag');
  const minions = fields.get('minions') ?? '*';
  const isRule =
    typeof tag === 'string' && isSpecificTagGlob(tag) && typeof minions === 'string' && minions !== '';
  const more = isRule ? readMore(fields) : undefined;
  return isRule && more !== undefined ? { tag, minions, ...more } : undefined;
}

/** What stands beside tag and minions, if it does. */
function readMore(
  fields: ReadonlyMap<string, unknown>,
): Omit<SignalRule, 'minions' | 'tag'> | undefined {
  const schema = toPlain(fields.get('schema'));
  const bytes = fields.get('bytes');
  const texts = ['name', 'rate', 'expires'].flatMap((name) => {
    const text = toPlain(fields.get(name));
    return text === undefined ? [] : [[name, text] as const];
  });
  const isCount = bytes === undefined || (Number.isInteger(bytes) && Number(bytes) > 0);
  if (!isCount || texts.some(([, text]) => typeof text !== 'string')) return undefined;
  return {
    ...Object.fromEntries(texts),
    ...(schema === undefined ? {} : { schema }),
    ...(bytes === undefined ? {} : { bytes: Number(bytes) }),
  };
}

/** From a file, or from a program. */
function fieldsOf(value: unknown): Map<string, unknown> | undefined {
  if (value instanceof Map)
    return new Map([...value].map(([name, field]) => [String(name), field]));
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? new Map(Object.entries(value)) : undefined;
}
