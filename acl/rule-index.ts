/** Finds the few rules that a text may concern, among many. */
import { type CompiledRule, headOf } from './compile-rule.ts';

const none: readonly CompiledRule[] = [];

/** Rules of one action and one effect, by the texts that they mean. */
export class RuleIndex {
  readonly #literal = new Map<string, CompiledRule[]>();
  readonly #heads = new Map<string, CompiledRule[]>();
  readonly #rest: CompiledRule[] = [];

  /** Keeps the order in which rules are added. */
  add(rule: CompiledRule): void {
    const { key } = rule.resource;
    if (key.kind === 'any') this.#rest.push(rule);
    else if (key.kind === 'head') push(this.#heads, key.head, rule);
    else for (const text of new Set(key.texts)) push(this.#literal, text, rule);
  }

  /**
   * The first rule that applies, or `undefined`.
   * @param best one that was found elsewhere, and that only an earlier one replaces
   */
  first(
    text: string,
    applies: (rule: CompiledRule) => boolean,
    best?: CompiledRule,
  ): CompiledRule | undefined {
    const head = this.#heads.size === 0 ? undefined : headOf(text);
    let found = earliest(this.#literal.get(text) ?? none, applies, best);
    if (head !== undefined) found = earliest(this.#heads.get(head) ?? none, applies, found);
    return earliest(this.#rest, applies, found);
  }
}

function earliest(
  rules: readonly CompiledRule[],
  applies: (rule: CompiledRule) => boolean,
  best: CompiledRule | undefined,
): CompiledRule | undefined {
  for (const rule of rules) {
    if (best !== undefined && best.order < rule.order) return best;
    if (applies(rule)) return rule;
  }
  return best;
}

function push(map: Map<string, CompiledRule[]>, key: string, rule: CompiledRule): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [rule]);
  else list.push(rule);
}
