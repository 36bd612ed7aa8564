import type { OptionKind } from './option-kinds.ts';
import type { SignalRule } from './options.ts';

const names: ReadonlySet<string> = new Set(['tag', 'minions']);

/** A list of maps with `tag` and, if the rule is not for all of them, `minions`. */
export const signalRules: OptionKind<readonly SignalRule[]> = {
  expected:
    'a list of maps, each with tag (a glob with a letter or a digit of its own) and, if not all minions are meant, minions (a glob on ids)',
  isPath: false,
  parse: (value) => {
    if (!Array.isArray(value)) return undefined;
    const rules = value.map(toRule).filter((rule) => rule !== undefined);
    return rules.length === value.length ? rules : undefined;
  },
};

/**
 * Whether a glob names something: one of wildcards alone would permit every tag, and then the
 * master might as well not ask.
 */
export function namesATag(glob: string): boolean {
  return /[\p{L}\p{N}]/u.test(glob.replace(/\[[^\]]*\]/g, ''));
}

function toRule(value: unknown): SignalRule | undefined {
  const fields = fieldsOf(value);
  if (fields === undefined || [...fields.keys()].some((name) => !names.has(name))) return undefined;
  const tag = fields.get('tag');
  const minions = fields.get('minions') ?? '*';
  const isRule =
    typeof tag === 'string' && namesATag(tag) && typeof minions === 'string' && minions !== '';
  return isRule ? { tag, minions } : undefined;
}

/** From a file, or from a program. */
function fieldsOf(value: unknown): Map<string, unknown> | undefined {
  if (value instanceof Map)
    return new Map([...value].map(([name, field]) => [String(name), field]));
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? new Map(Object.entries(value)) : undefined;
}
