/**
 * Tag patterns: globs with the placeholders `${minion.id}` and `${pillar:path}` for values of the
 * sender. Inserted values are compared as literal text. Wildcards are allowed only after the last
 * placeholder.
 */

import { PolicyError } from './errors.ts';
import { indexKeyOf, indexKeyOfGlobs, type RuleIndexKey } from './index-keys.ts';
import type { PolicyEnvironment } from './policy-syntax.ts';
import { compileGlob, orPatternError, type RuleField } from './rule-patterns.ts';
import type { Subject } from './types.ts';

/**
 * Compiled tag pattern of a rule: its key in the rule index, and a test of a signal's tag and
 * sender.
 */
interface TagPattern {
  readonly key: RuleIndexKey;
  readonly matches: (tag: string, subject: Subject) => boolean;
}

type Part = (id: string) => string | undefined;

const placeholder = /\$\{([^}]*)\}/g;
const wildcard = /[*?[]/;

/**
 * Compiles a tag pattern.
 * @throws PolicyError ERR_POLICY_PATTERN
 */
export function compileTagPattern(
  pattern: string,
  world: PolicyEnvironment,
  place: RuleField,
): TagPattern {
  const { parts, rest, literals } = split(pattern, world, place);
  const test = orPatternError(place, () => compileGlob(rest, world));
  if (parts.length === 0) return { key: indexKeyOf(pattern), matches: test };
  const isWhole = rest === '';
  return {
    key: indexKeyOfGlobs([...literals, rest]),
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
  world: PolicyEnvironment,
  place: RuleField,
): {
  readonly parts: readonly Part[];
  readonly rest: string;
  /** Parts of the pattern before, between and after its placeholders. */
  readonly literals: readonly string[];
} {
  const parts: Part[] = [];
  const literals: string[] = [];
  let end = 0;
  for (const found of pattern.matchAll(placeholder)) {
    const literal = pattern.slice(end, found.index);
    if (wildcard.test(literal)) {
      throw tagPatternError(
        place,
        'a tag pattern may have wildcards only after its last placeholder',
      );
    }
    literals.push(literal);
    if (literal !== '') parts.push(() => literal);
    parts.push(readPlaceholder(found[1] ?? '', world, place));
    end = found.index + found[0].length;
  }
  return { parts, rest: pattern.slice(end), literals };
}

function readPlaceholder(name: string, { pillarOf }: PolicyEnvironment, place: RuleField): Part {
  if (name === 'minion.id') return (id) => id;
  const path = name.startsWith('pillar:') ? name.slice('pillar:'.length) : '';
  if (path === '')
    throw tagPatternError(
      place,
      'a placeholder of a tag pattern must be named `minion.id` or `pillar:PATH`',
    );
  return (id) => pillarOf(id, path);
}

function tagPatternError(place: RuleField, problem: string): PolicyError {
  return new PolicyError('ERR_POLICY_PATTERN', place, problem);
}
