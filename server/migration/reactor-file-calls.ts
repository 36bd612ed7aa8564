/** Finds the calls of a reactor file without rendering it, because rendering needs an event. */

import { MasterError } from '#master';
import { isFunctionName } from '#minion-protocol';
import type { Chunk, loadReactorReader } from '#salt';
import { parseYaml, TemplateError } from '#template';
import { jinjaComments } from './template-calls.ts';

export type ReactorReader = Awaited<ReturnType<typeof loadReactorReader>>;

/** Call whose function and target are literal in the file. A rule can be derived from it. */
export interface ReactorCall {
  readonly action: 'publish' | 'runner' | 'wheel';
  readonly fun: string;
  /** Target of the call, as a compound target. Only for the action `publish`. */
  readonly within?: string;
}

/** Calls of a reactor file, and the parts of it from which no rule can be derived. */
interface ReactorFileCalls {
  readonly calls: readonly ReactorCall[];
  /**
   * Calls and other parts of the file from which no rule can be derived. Each text describes the
   * part and the reason.
   */
  readonly underivable: readonly string[];
}

/** Text that replaces the output of templates. Files are assumed not to contain it. */
const templated = 'saltbridge-templated';

/**
 * Finds the calls in a reactor file, in all branches of its templates, because any branch may apply
 * to some event.
 * @param renderer - value of the master's option `renderer`
 * @param nodegroups - the master's nodegroups, by name
 */
export function callsIn(
  text: string,
  renderer: string,
  nodegroups: ReadonlyMap<string, string>,
  reader: ReactorReader,
): ReactorFileCalls {
  const calls: ReactorCall[] = [];
  const underivable: string[] = [];
  try {
    const { isTemplate } = reader.pipeOf(text, renderer);
    const plain = isTemplate ? withoutTemplates(text) : text;
    if (isTemplate && /\{%-?\s*(?:include|extends|import|from|call)\b/.test(text)) {
      underivable.push('it includes other files or macros, whose calls are not examined');
    }
    for (const block of blocksOf(plain)) readBlock(block, nodegroups, reader, calls, underivable);
  } catch (error) {
    if (!(error instanceof MasterError)) throw error;
    underivable.push(error.message);
  }
  return { calls, underivable };
}

const statement = String.raw`\{%(?:[^{%]|%(?!\})|\{(?!%))*%\}`;
const statementLines = new RegExp(String.raw`^[ \t]*(?:${statement}[ \t]*)+$`, 'gm');
const written = new RegExp(String.raw`${statement}|\{\{(?:[^{}]|\}(?!\})|\{(?!\{))*\}\}`, 'g');

/**
 * Removes comments and template statements that fill whole lines, and replaces all other template
 * statements and expressions by {@link templated}.
 */
function withoutTemplates(text: string): string {
  return text.replace(jinjaComments, '').replace(statementLines, '').replace(written, templated);
}

/**
 * Returns the blocks of a file: each top-level key with the lines below it. A key can occur several
 * times, in different branches of a template.
 */
function blocksOf(text: string): string[] {
  const blocks: string[][] = [[]];
  for (const line of text.split('\n')) {
    if (/^[^\s#-]/.test(line) && !line.startsWith('---')) blocks.push([]);
    if (!line.startsWith('#!') && !line.startsWith('---')) blocks.at(-1)?.push(line);
  }
  return blocks.map((lines) => lines.join('\n')).filter((block) => block.trim() !== '');
}

function readBlock(
  block: string,
  nodegroups: ReadonlyMap<string, string>,
  { chunksOf, FormError }: ReactorReader,
  calls: ReactorCall[],
  underivable: string[],
): void {
  const [first = ''] = block.trim().split('\n', 1);
  const name = first.replaceAll(templated, '{{ … }}').slice(0, 100);
  try {
    const data = parseYaml(block, { name: 'reactor' });
    if (data === null) return;
    for (const chunk of chunksOf(data)) {
      const call = callOf(chunk, isChosen(block), nodegroups);
      if (typeof call === 'string') underivable.push(`${name} ${call}`);
      else calls.push(call);
    }
  } catch (error) {
    if (!(error instanceof FormError || error instanceof TemplateError)) throw error;
    underivable.push(`${name} cannot be determined without an event`);
  }
}

/**
 * Whether a block of a reactor file contains more targets (`tgt`) than calls. A template in the
 * block then decides which of the targets a call has.
 */
function isChosen(block: string): boolean {
  const targets = block.match(/^[ \t]*(?:-[ \t]+)?tgt[ \t]*:/gm) ?? [];
  const functions = block.match(/^[ \t]+(?:local|cmd)(?:\.[\w.]+)?[ \t]*:/gm) ?? [];
  return targets.length > Math.max(1, functions.length);
}

/**
 * Reads one call of a reactor file.
 * @returns the call, or the reason why no rule can be derived from it
 */
function callOf(
  chunk: Chunk,
  isChosenTarget: boolean,
  nodegroups: ReadonlyMap<string, string>,
): ReactorCall | string {
  const [state, fun] = [chunk.get('state'), chunk.get('fun')];
  if (typeof fun !== 'string' || typeof state !== 'string') return 'has no function';
  if (fun.includes(templated) || state.includes(templated)) {
    return 'takes its function from a template';
  }
  if (!isFunctionName(fun)) return 'has no function';
  if (state === 'runner' || state === 'wheel') return { action: state, fun };
  if (state !== 'local' && state !== 'cmd') return `calls ${state}, which is not supported`;
  if (isChosenTarget) return 'has a target that a template chooses';
  const target = targetOf(chunk, nodegroups);
  return 'problem' in target ? target.problem : { action: 'publish', fun, ...target };
}

/**
 * Returns the target of a call as a compound target. If rules do not support the target, returns
 * the reason.
 */
function targetOf(
  chunk: Chunk,
  nodegroups: ReadonlyMap<string, string>,
): { readonly within: string } | { readonly problem: string } {
  const [given, type] = [chunk.get('tgt'), chunk.get('tgt_type') ?? 'glob'];
  const tgt = Array.isArray(given) ? given.join(',') : given;
  if (typeof tgt !== 'string' || tgt === '' || typeof type !== 'string') {
    return { problem: 'has no target' };
  }
  if (`${tgt}${type}`.includes(templated)) return { problem: 'takes its target from a template' };
  const kind = Array.isArray(given) ? 'list' : type.toLowerCase();
  const within = kind.startsWith('node') ? `N@${tgt}` : compoundOf(tgt, kind);
  if (within === undefined) {
    return { problem: `has a target of the type ${type}, which rules do not support` };
  }
  if (usesGrains(within, nodegroups)) {
    return { problem: 'has a target by grains, which rules do not support' };
  }
  return { within };
}

const letters: Readonly<Record<string, string>> = {
  pcre: 'E',
  list: 'L',
  pillar: 'I',
  ipcidr: 'S',
};

function compoundOf(tgt: string, kind: string): string | undefined {
  if (kind === 'compound') return tgt;
  // A target that contains spaces or parentheses cannot be converted, because they separate the
  // words of a compound target.
  if (/[\s()]/.test(tgt) || /^.@/.test(tgt)) return undefined;
  if (kind === 'glob') return tgt;
  if (kind === 'grain' || kind === 'grain_pcre') return `G@${tgt}`;
  const letter = Object.hasOwn(letters, kind) ? letters[kind] : undefined;
  return letter === undefined ? undefined : `${letter}@${tgt}`;
}

/**
 * Whether a target depends on grains. Rules do not support grains, because minions report their own
 * grains.
 */
function usesGrains(
  target: string,
  nodegroups: ReadonlyMap<string, string>,
  seen: ReadonlySet<string> = new Set(),
): boolean {
  if (/(?:^|[\s(])[GP]@/.test(target)) return true;
  const groups = [...target.matchAll(/(?:^|[\s(])N@([^\s()]+)/g)].map(([, group = '']) => group);
  return groups.some((group) => {
    const definition = nodegroups.get(group);
    if (definition === undefined || seen.has(group)) return false;
    return usesGrains(definition, nodegroups, new Set([...seen, group]));
  });
}
