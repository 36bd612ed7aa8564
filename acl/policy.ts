import { type CompiledRule, compileRule } from './compile-rule.ts';
import type { PolicyEnvironment } from './policy-syntax.ts';
import type { PolicyRule, RuleAction } from './rule.ts';
import type { Subject } from './types.ts';

// Index from a text to the few rules that may match it.

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
      else if (key.kind === 'literal') addTo(listIn(this.#literal, key.text), rule);
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
    const lists = this.#grams.get(length) ?? new Map<number, CompiledRule[]>();
    this.#grams.set(length, lists);
    return listIn(lists, leastUsedGram(pieces, length, lists));
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

function listIn<K>(map: Map<K, CompiledRule[]>, key: K): CompiledRule[] {
  const known = map.get(key);
  if (known !== undefined) return known;
  const list: CompiledRule[] = [];
  map.set(key, list);
  return list;
}

// Rules by the name of their subject, cached.

/** Rules of a policy that may concern a subject. */
interface SubjectRules {
  readonly deny: readonly RuleIndex[];
  readonly allow: readonly RuleIndex[];
  readonly kind: Subject['kind'];
}

type Effect = 'allow' | 'deny';
/** By kind of subject, action and effect. */
type Group = `${Subject['kind']} ${RuleAction} ${Effect}`;

/** Subjects, and rules of their own, that are remembered; then all are forgotten. */
const maxSubjects = 50_000;
const maxOwnRules = 1_000_000;

/** Sorts the rules of a policy by whom they are about. */
class RulesBySubject {
  readonly #ofEveryone = new Map<Group, RuleIndex>();
  readonly #ofSome = new Map<Group, CompiledRule[]>();
  /** By action, then by name. */
  readonly #known = new Map<string, Map<string, SubjectRules>>();
  /** By the places of its rules: minions of one kind have the same. */
  readonly #shared = new Map<string, RuleIndex>();
  #count = 0;
  #ownRules = 0;

  constructor(rules: readonly CompiledRule[]) {
    for (const compiled of rules) {
      const { rule, subject } = compiled;
      const group: Group = `${subject.kind} ${rule.action} ${rule.effect}`;
      if (subject.isEveryone) indexOf(this.#ofEveryone, group).add(compiled);
      else listOf(this.#ofSome, group).push(compiled);
    }
  }

  of(subject: Subject, action: RuleAction): SubjectRules {
    const name = subject.kind === 'minion' ? subject.id : subjectName(subject);
    const known = this.#known.get(action)?.get(name);
    // A minion's id may look like the name of another kind of subject.
    if (known?.kind === subject.kind) return known;
    const found = {
      kind: subject.kind,
      deny: this.#find(subject, action, 'deny'),
      allow: this.#find(subject, action, 'allow'),
    };
    this.#remember(action, name, found);
    return found;
  }

  #remember(action: RuleAction, name: string, found: SubjectRules): void {
    if (this.#count >= maxSubjects || this.#ownRules > maxOwnRules) {
      this.#known.clear();
      this.#shared.clear();
      this.#count = 0;
      this.#ownRules = 0;
    }
    const ofAction = this.#known.get(action) ?? new Map<string, SubjectRules>();
    this.#known.set(action, ofAction.set(name, found));
    this.#count += 1;
  }

  #find(subject: Subject, action: RuleAction, effect: Effect): RuleIndex[] {
    const group: Group = `${subject.kind} ${action} ${effect}`;
    const shared = this.#ofEveryone.get(group);
    const own = (this.#ofSome.get(group) ?? []).filter((it) => it.subject.covers(subject));
    const indexes = shared === undefined ? [] : [shared];
    return own.length === 0 ? indexes : [...indexes, this.#indexOf(own)];
  }

  #indexOf(own: readonly CompiledRule[]): RuleIndex {
    const orders = own.map(({ order }) => order).join(' ');
    const known = this.#shared.get(orders);
    if (known !== undefined) return known;
    const index = new RuleIndex();
    for (const rule of own) index.add(rule);
    this.#shared.set(orders, index);
    this.#ownRules += own.length;
    return index;
  }
}

/** A name that no other subject has, nor the same one with other rights. */
function subjectName(subject: Subject): string {
  switch (subject.kind) {
    case 'minion':
      return `minion ${subject.id}`;
    case 'user':
      return JSON.stringify([subject.eauth ?? null, subject.name, ...subject.groups]);
    case 'project':
      return JSON.stringify(subject);
    case 'service':
    case 'token':
      return `${subject.kind} ${subject.name}`;
  }
}

/** By what rates count: the same whichever of their roles somebody comes with. */
export function rateLimitKey(subject: Subject): string {
  if (subject.kind !== 'project') return subjectName(subject);
  return `project ${subject.project.id} ${subject.user.id}`;
}

function listOf(map: Map<Group, CompiledRule[]>, group: Group): CompiledRule[] {
  const known = map.get(group);
  if (known !== undefined) return known;
  const list: CompiledRule[] = [];
  map.set(group, list);
  return list;
}

function indexOf(map: Map<Group, RuleIndex>, group: Group): RuleIndex {
  const known = map.get(group);
  if (known !== undefined) return known;
  const index = new RuleIndex();
  map.set(group, index);
  return index;
}

/** Rules in force, ready to be asked by {@link decide}. */
export interface Policy {
  readonly rules: readonly CompiledRule[];
  readonly ofSubjects: RulesBySubject;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * Compiles rules, all or nothing. What was metered by the rates of another policy is not known
 * to this one.
 * @throws PolicyError
 */
export function createPolicy(rules: readonly PolicyRule[], world: PolicyEnvironment): Policy {
  const compiled = rules.map((rule, order) => compileRule(rule, order, world));
  return { rules: compiled, ofSubjects: new RulesBySubject(compiled), now: world.now };
}

/** Nothing beyond what a minion may without any rule. */
export const emptyPolicy: Policy = {
  rules: [],
  ofSubjects: new RulesBySubject([]),
  now: () => 0,
};
