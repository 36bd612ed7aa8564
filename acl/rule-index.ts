/** Index from a text to the few rules that may match it. */

import type { CompiledRule } from './compile-rule.ts';

/**
 * Characters of a text by which a pattern is found, at most: enough to tell thousands of patterns
 * apart, and few enough that most have as many between two wildcards.
 */
const gramLength = 4;

const none: readonly CompiledRule[] = [];

/**
 * Rules of one action and one effect, by the texts that they mean: literal ones by the whole text,
 * patterns by a few characters that must be in it, those that fewest others are found by. What is
 * found is only a candidate.
 */
export class RuleIndex {
  readonly #literal = new Map<string, CompiledRule[]>();
  /** By length, then by what {@link gramAt} makes of the characters. */
  readonly #grams = new Map<number, Map<number, CompiledRule[]>>();
  readonly #rest: CompiledRule[] = [];

  /** Keeps the order in which rules are added. */
  add(rule: CompiledRule): void {
    for (const key of rule.resource.keys) {
      if (key.kind === 'any') addTo(this.#rest, rule);
      else if (key.kind === 'literal')
        addTo(
          valueIn(this.#literal, key.text, () => []),
          rule,
        );
      else addTo(this.#leastUsed(key.pieces), rule);
    }
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
    let found = earliest(this.#literal.get(text) ?? none, applies, best);
    for (const [length, lists] of this.#grams) {
      for (let at = 0; at + length <= text.length; at += 1) {
        const rules = lists.get(gramAt(text, at, length));
        if (rules !== undefined) found = earliest(rules, applies, found);
      }
    }
    return earliest(this.#rest, applies, found);
  }

  /** All rules that apply, in their order. */
  all(text: string, applies: (rule: CompiledRule) => boolean): CompiledRule[] {
    const found = new Set<CompiledRule>();
    this.first(text, (rule) => {
      if (applies(rule)) found.add(rule);
      return false;
    });
    return [...found].sort((a, b) => a.order - b.order);
  }

  #leastUsed(pieces: readonly string[]): CompiledRule[] {
    const longest = Math.max(...pieces.map((piece) => piece.length));
    const length = Math.min(gramLength, longest);
    const lists = valueIn(this.#grams, length, () => new Map<number, CompiledRule[]>());
    return valueIn(lists, leastUsedGram(pieces, length, lists), () => []);
  }
}

function leastUsedGram(
  pieces: readonly string[],
  length: number,
  lists: ReadonlyMap<number, readonly CompiledRule[]>,
): number {
  let best = { gram: 0, uses: Infinity };
  for (const piece of pieces) {
    for (let at = 0; at + length <= piece.length; at += 1) {
      const gram = gramAt(piece, at, length);
      const uses = lists.get(gram)?.length ?? 0;
      if (uses < best.uses) best = { gram, uses };
      if (uses === 0) return gram;
    }
  }
  return best.gram;
}

/** Characters as one small integer, which a map finds faster than text; others may share it. */
function gramAt(text: string, at: number, length: number): number {
  let gram = 0;
  for (let index = at; index < at + length; index += 1) {
    gram = (Math.imul(gram, 173) + text.charCodeAt(index)) & 0x3fff_ffff;
  }
  return gram;
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

/** Two patterns of a rule may be found by the same. */
function addTo(list: CompiledRule[], rule: CompiledRule): void {
  if (list.at(-1) !== rule) list.push(rule);
}

/** The value of a key, which is made if the map has none. */
export function valueIn<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
