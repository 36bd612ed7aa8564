/**
 * Expands nodegroups, which are names for compound expressions and may refer to each other
 * [salt/utils/minions.py nodegroup_comp]. An expanded group is put in parentheses, so that
 * `not N@group` excludes all its minions. Salt omits the parentheses if the group refers to no
 * other group.
 */

import { compoundOperators, splitTargetWords } from './compound.ts';

/**
 * Definitions by name. A definition is an expression as text, a list of the words of an expression,
 * or a list of minion ids.
 */
export type Nodegroups = Readonly<Record<string, string | readonly string[]>>;

/**
 * Maximum number of words after expansion. Groups that refer to each other several times grow
 * exponentially.
 */
const maxWords = 10_000;

/**
 * Returns the words of a group, with every `N@` expanded.
 * @throws SyntaxError if a group is not defined or contains itself, or if there are too many words
 */
export function expandNodegroup(name: string, nodegroups: Nodegroups): string[] {
  return new Expansion(nodegroups).group(name, []);
}

/**
 * Returns the words of a compound expression, with every `N@` expanded.
 * @throws SyntaxError with the reason
 */
export function expandCompound(words: readonly string[], nodegroups: Nodegroups): string[] {
  return new Expansion(nodegroups).words(words, []);
}

/**
 * Returns a path of names that leads from a group back to the same group, for example `['a', 'b',
 * 'a']`. Returns `undefined` if no group refers to itself.
 */
export function findNodegroupLoop(nodegroups: Nodegroups): readonly string[] | undefined {
  const harmless = new Set<string>();
  const follow = (name: string, path: readonly string[]): readonly string[] | undefined => {
    if (path.includes(name)) return [...path.slice(path.indexOf(name)), name];
    if (harmless.has(name)) return undefined;
    for (const next of namedIn(nodegroups, name)) {
      const loop = follow(next, [...path, name]);
      if (loop !== undefined) return loop;
    }
    harmless.add(name);
    return undefined;
  };
  for (const name of Object.keys(nodegroups)) {
    const loop = follow(name, []);
    if (loop !== undefined) return loop;
  }
  return undefined;
}

/** Returns the first nodegroup that these words name and `nodegroups` does not define. */
export function findUndefinedGroup(
  words: string | readonly string[],
  nodegroups: Nodegroups,
): string | undefined {
  const names = [...splitTargetWords(words)].map(groupNameOf);
  return names.find((name) => name !== undefined && !Object.hasOwn(nodegroups, name));
}

/** Error for a nodegroup that contains itself. */
export class NodegroupLoop extends SyntaxError {}

function namedIn(nodegroups: Nodegroups, name: string): string[] {
  return definitionOf(nodegroups, name).flatMap((word) => groupNameOf(word) ?? []);
}

function definitionOf(nodegroups: Nodegroups, name: string): string[] {
  return Object.hasOwn(nodegroups, name) ? [...splitTargetWords(nodegroups[name] ?? [])] : [];
}

function groupNameOf(word: string): string | undefined {
  return word.length > 2 && word.startsWith('N@') ? word.slice(2) : undefined;
}

class Expansion {
  readonly #nodegroups: Nodegroups;
  #count = 0;

  constructor(nodegroups: Nodegroups) {
    this.#nodegroups = nodegroups;
  }

  words(words: readonly string[], path: readonly string[]): string[] {
    return words.flatMap((word) => {
      this.#count += 1;
      if (this.#count > maxWords)
        throw new SyntaxError(
          `after nodegroups are expanded, the target has more than ${maxWords} words`,
        );
      const name = groupNameOf(word);
      return name === undefined ? word : ['(', ...this.group(name, path), ')'];
    });
  }

  group(name: string, path: readonly string[]): string[] {
    if (path.includes(name)) {
      const way = [...path, name].join(' > ');
      throw new NodegroupLoop(`nodegroup "${name}" contains itself: ${way}`);
    }
    if (!Object.hasOwn(this.#nodegroups, name)) {
      throw new SyntaxError(`nodegroup "${name}" is not defined`);
    }
    const words = definitionOf(this.#nodegroups, name);
    return isPlainList(words) ? [joined(words)] : this.words(words, [...path, name]);
  }
}

/**
 * Whether a definition consists only of ids, or of ids and regular expressions for ids. It then has
 * no operators, no `*`, and no words such as `G@…`.
 */
function isPlainList(words: readonly string[]): boolean {
  return (
    words.length > 0 &&
    !words.some((word) => compoundOperators.has(word) || word.includes('*') || /^[A-Z]@/.test(word))
  );
}

/**
 * Joins the words to one condition: `E@…` if any word is a pattern, and `L@…` otherwise
 * [salt/utils/minions.py _nodegroup_regex].
 */
function joined(words: readonly string[]): string {
  const isExpression = words.some((word) => /[([{\\?}\])]/.test(word));
  return `${isExpression ? 'E' : 'L'}@${words.join(',')}`;
}
