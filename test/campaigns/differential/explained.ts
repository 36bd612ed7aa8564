/** Differences that docs/compatibility/differential.md explains, by the id of their row. */

import { type Question, surroundings } from './cases.ts';
import type { Answer } from './ours.ts';

interface Explanation {
  /** Id of the row in docs/compatibility/differential.md. */
  readonly id: string;
  readonly covers: (it: Question, mine: Answer, theirs: Answer) => boolean;
}

const groups: ReadonlySet<string> = new Set(Object.keys(surroundings.nodegroups));

const explanations: readonly Explanation[] = [
  // Salt publishes an invalid target, which matches no minion. Here it is rejected.
  {
    id: 'unreadable-target',
    covers: ({ kind }, { error }) => kind === 'target' && error === 'ERR_BAD_TGT',
  },
  // Salt fails to compile a pillar with such a target in its top file. Here the pillar contains an
  // error.
  {
    id: 'unreadable-target',
    covers: ({ kind }, { value }, { error }) =>
      kind === 'pillar' && value?.endsWith(' with errors') === true && error === 'error',
  },
  // Here an invalid target in a top file is an error of the pillar. In Salt it matches no minion.
  {
    id: 'unreadable-target',
    covers: (it, { value }, theirs) =>
      it.kind === 'pillar' &&
      value?.endsWith(' with errors') === true &&
      theirs.value !== undefined &&
      Object.entries(it.files).some(
        ([name, text]) => name.endsWith('top.sls') && /[@:]\S*\((?:\s|"|$)/m.test(text),
      ),
  },
  // Salt's packages include timelib, which parses dates in texts. The Salt of the campaign does not
  // have it.
  {
    id: 'timelib',
    covers: (_, mine, { message }) =>
      message?.includes('installing timelib') === true ||
      mine.message?.includes('invalid date') === true,
  },
  // The document consists only of an end marker.
  {
    id: 'yaml-lone-end',
    covers: (it) => it.kind === 'yaml' && /^(?:\s|#.*\n)*\.\.\.\s*(?:#.*)?\s*$/.test(it.text),
  },
  // YAML 1.1 treats U+0085, U+2028 and U+2029 as line breaks.
  {
    id: 'yaml-line-breaks',
    covers: (it) =>
      (it.kind === 'yaml' || it.kind === 'pillar') &&
      ('text' in it ? [it.text] : Object.values(it.files)).some((text) =>
        /[\u0085\u2028\u2029]/.test(text),
      ),
  },
  // A single dash precedes a comma or a bracket.
  {
    id: 'yaml-flow-dash',
    covers: (it, { error, message }) =>
      message?.startsWith('Block collections are not allowed') === true ||
      (it.kind === 'yaml' && error === 'ERR_YAML' && /[[{,]\s*-\s*[,\]}]/.test(it.text)),
  },
  // A word inside brackets begins with a question mark.
  {
    id: 'yaml-flow-question',
    covers: ({ kind }, { message }) =>
      kind === 'yaml' && message?.startsWith("found '?' at the begin") === true,
  },
  // An empty key inside brackets is the last item, and a comma follows it.
  {
    id: 'yaml-flow-question',
    covers: (it, { message }) =>
      it.kind === 'yaml' &&
      message?.startsWith("did not find expected ',' or ']'") === true &&
      /\?\s*,\s*\]/.test(it.text),
  },
  // The document is a block scalar without indentation.
  {
    id: 'yaml-unindented-block',
    covers: ({ kind }, { message }) =>
      kind === 'yaml' && message?.startsWith('did not find expected <document start>') === true,
  },
  // A block scalar with an indentation indicator contains only blanks.
  {
    id: 'yaml-blank-block',
    covers: (it) => it.kind === 'yaml' && /[|>][-+]?[1-9][-+]?[^\S\n]*\r?\n[\s]*$/.test(it.text),
  },
  // An expression names a nodegroup that is not defined.
  {
    id: 'undefined-nodegroup',
    covers: (it) =>
      it.kind === 'target' &&
      it.tgtType === 'compound' &&
      `${it.tgt}`.split(' ').some((word) => /^N@./.test(word) && !groups.has(word.slice(2))),
  },
  // Salt ends with an exception of Python's, here the pillar contains an error.
  {
    id: 'pillar-exception',
    covers: ({ kind }, { value }, { error }) =>
      kind === 'pillar' &&
      value?.endsWith(' with errors') === true &&
      /^(?:TypeError|AttributeError|TooExpensive)$/.test(error ?? ''),
  },
  // Jinja evaluates the slice of a number before the template runs, and then it is undefined.
  {
    id: 'constant-slice',
    covers: (it, { message }) =>
      it.kind === 'template' &&
      /\)\[/.test(it.text) &&
      /object (?:is not subscriptable|has no element)/.test(message ?? ''),
  },
  // An included file that is not a map has no value here. Salt stores its value under the key, in
  // addition to the error.
  {
    id: 'pillar-include-value',
    covers: (it, { value }, theirs) =>
      it.kind === 'pillar' &&
      value?.endsWith(' with errors') === true &&
      theirs.value?.endsWith(' with errors') === true &&
      Object.values(it.files).some((text) => text.includes('key: sub')),
  },
  // The texts contain memory addresses of Python objects.
  {
    id: 'object-address',
    covers: (it, mine, theirs) =>
      withoutAddresses(mine) === withoutAddresses(theirs) ||
      // A filter has split the text into characters.
      [mine, theirs].every(({ value }) => value?.includes("'0', 'x', '7', 'f'")) ||
      (it.kind === 'template' &&
        /\b(?:map|select|reject|batch|slice|items|permutations|combinations|product|zip)\b/.test(
          it.text,
        ) &&
        /\| (?:wordcount|forceescape|escape|e|lower|upper|title|capitalize|md5|sha256|sha512)\b/.test(
          it.text,
        )),
  },
  // Salt ends with an exception of Python's, here with results or an error.
  {
    id: 'orchestration-exception',
    covers: ({ kind }, _, { error = '' }) =>
      kind === 'orchestration' &&
      /^(?:(?:UnboundLocal|Attribute|Recursion|Key|Type|Value|Index|SaltInvocation)Error|TooExpensive)$/.test(
        error,
      ),
  },
  // Salt puts exceptions of a state's function into a result without the place of the state.
  {
    id: 'orchestration-exception',
    covers: (_, __, { value }) => value?.includes('"name":"later"') === true,
  },
  // Salt does not look for the states of `onfail_all`; it waits for them until it gives up.
  { id: 'onfail-all', covers: (it) => sitesOf(it).some((text) => text.includes('onfail_all:')) },
  // `use` shares lists between states in Salt, which then appends to both.
  {
    id: 'use-shared-list',
    covers: (it, mine, theirs) =>
      sitesOf(it).some((text) => /\buse(?:_in)?:/.test(text)) &&
      mine.value !== undefined &&
      (sitesOf(it).some((text) => /\blisten(?:_in)?:/.test(text)) ||
        withoutRepetitions(mine.value) === withoutRepetitions(theirs.value ?? '')),
  },
  // Jinja writes such a file before the text of the block, because it ignores the block's buffer.
  {
    id: 'include-without-context',
    covers: (it, mine, theirs) =>
      it.kind === 'template' &&
      /\binclude\b[^%]*\bwithout context\b/.test(it.text) &&
      sorted(mine.value) === sorted(theirs.value),
  },
  // Salt 3007 compares addresses of items, which Python uses again for the next item of an iterator.
  {
    id: 'flatten-cycle',
    covers: (_, { value }, { message }) =>
      value !== undefined && message?.includes('Reference cycle detected') === true,
  },
  // Python orders the items of a set by hashes that differ in each process.
  {
    id: 'set-order',
    covers: (it, mine, theirs) =>
      it.kind === 'template' &&
      /\b(?:unique|union|intersect|difference|symmetric_difference)\b/.test(it.text) &&
      sorted(mine.value) === sorted(theirs.value),
  },
  // A cycle through `prereq`. In Salt, some of its states have no result.
  {
    id: 'prereq-cycle',
    covers: (it, mine, theirs) =>
      sitesOf(it).some((text) => text.includes('prereq')) &&
      [mine, theirs].some(({ value }) => value?.includes('Recursive requisite found')),
  },
  { id: 'not-served', covers: (_, { error }) => error === 'ERR_TEMPLATE_UNSUPPORTED' },
];

/** SLS files of an orchestration. */
function sitesOf(it: Question): readonly string[] {
  return it.kind === 'orchestration' ? Object.values(it.files) : [];
}

/** Ids of the explained differences. */
export const explanationIds: readonly string[] = [...new Set(explanations.map(({ id }) => id))];

function sorted(text: string | undefined): string {
  return [...(text ?? '')].sort().join('');
}

/** Removes run numbers, and repeated lines of comments about requisites that were not found. */
function withoutRepetitions(text: string): string {
  return text
    .replaceAll(/"__run_num__":\d+/g, '')
    .replaceAll(/(?: {23}\w+: [^\\]*\\n)+/g, (lines) =>
      [...new Set(lines.split('\\n'))].join('\\n'),
    );
}

function withoutAddresses({ value }: Answer): string | undefined {
  return value
    ?.replaceAll(/(?:<|&lt;)[^<>&]* [ab]t 0x[0-9a-f]+(?:>|&gt;)/gi, '<object>')
    .replaceAll(/%3C(?:(?!%3[CE]).)*%20[ab]t%200x[0-9a-f]+%3E/gi, '<object>');
}

/** Returns the id of the documented reason why the answers differ, if there is one. */
export function explanationOf(it: Question, mine: Answer, theirs: Answer): string | undefined {
  const found = explanations.find(({ covers }) => covers(it, mine, theirs));
  return found === undefined ? undefined : `explained by ${found.id}`;
}
