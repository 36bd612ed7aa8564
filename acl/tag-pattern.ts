/**
 * Tags of a rule: a glob in which `${minion.id}` and `${pillar:path}` stand for what is the
 * sender's own. What is put in is text, whatever it looks like, and nothing is compiled for it:
 * wildcards stand only after the last placeholder.
 */
import { PolicyError } from './errors.ts';
import { compileGlob, orRefuse, type Place } from './patterns.ts';
import { keyOf, keyOfPieces, type RuleKey } from './rule-key.ts';
import type { PolicyWorld } from './syntax.ts';
import type { Subject } from './types.ts';

/** A tag pattern that was read. */
export interface TagPattern {
  readonly key: RuleKey;
  readonly matches: (tag: string, subject: Subject) => boolean;
}

type Part = (id: string) => string | undefined;

const placeholder = /\$\{([^}]*)\}/g;
const wildcard = /[*?[]/;

/** @throws PolicyError ERR_POLICY_PATTERN */
export function compileTagPattern(pattern: string, world: PolicyWorld, place: Place): TagPattern {
  const { parts, rest, literals } = split(pattern, world, place);
  const test = orRefuse(place, () => compileGlob(rest, world));
  if (parts.length === 0) return { key: keyOf(pattern), matches: test };
  const isWhole = rest === '';
  return {
    key: keyOfPieces([...literals, rest]),
    matches: (tag, subject) => {
      const own = subject.kind === 'minion' ? expand(parts, subject.id) : undefined;
      if (own === undefined) return false;
      return isWhole ? tag === own : tag.startsWith(own) && test(tag.slice(own.length));
    },
  };
}

function expand(parts: readonly Part[], id: string): string | undefined {
  let text = '';
  for (const part of parts) {
    const value = part(id);
    if (value === undefined || value === '') return undefined;
    text += value;
  }
  return text;
}

function split(
  pattern: string,
  world: PolicyWorld,
  place: Place,
): {
  readonly parts: readonly Part[];
  readonly rest: string;
  /** What stands between the placeholders. */
  readonly literals: readonly string[];
} {
  const parts: Part[] = [];
  const literals: string[] = [];
  let end = 0;
  for (const found of pattern.matchAll(placeholder)) {
    const literal = pattern.slice(end, found.index);
    if (wildcard.test(literal)) {
      throw refuse(place, 'wildcards stand only after the last placeholder');
    }
    literals.push(literal);
    if (literal !== '') parts.push(() => literal);
    parts.push(readPlaceholder(found[1] ?? '', world, place));
    end = found.index + found[0].length;
  }
  return { parts, rest: pattern.slice(end), literals };
}

function readPlaceholder(name: string, { pillarOf }: PolicyWorld, place: Place): Part {
  if (name === 'minion.id') return (id) => id;
  const path = name.startsWith('pillar:') ? name.slice('pillar:'.length) : '';
  if (path === '') throw refuse(place, 'a placeholder is minion.id, or pillar: and a path');
  return (id) => pillarOf(id, path);
}

function refuse(place: Place, problem: string): PolicyError {
  return new PolicyError('ERR_POLICY_PATTERN', place, problem);
}
