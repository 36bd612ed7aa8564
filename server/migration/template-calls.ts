/**
 * Finds functions that templates call but saltbridge does not support. Only templates that the
 * master renders are examined.
 */

import type { Settings } from '#config';
import { loadTemplateFunctionNames } from '#salt';
import type { MigrationFinding } from './finding.ts';
import { maxFormulaBytes, readStart, rootsOf, walkFiles } from './site-files.ts';

/** A file with templates that the master renders. */
interface TemplateFile {
  readonly file: string;
  readonly text: string;
}

const comment = /\{#(?:(?!#\})[\s\S])*#\}/g;
const expression = /\{[{%](?:(?![%}]\})[\s\S])*[%}]\}/g;
/** Matches `salt['module.function']` and the attribute form `salt.module.function(`. */
const call = /\bsalt\s*(?:\[\s*(['"])(\w+\.\w+)\1\s*\]|\.\s*(\w+\.\w+)\s*\()/g;

/** Matches a state that occurs only in orchestrations. */
const orchestrationState =
  /^\s*(?:-\s+)?salt\.(?:state|function|runner|wheel|wait_for_event|parallel_runners)\b/m;

/** Whether a file of `file_roots` is an orchestration, which the master renders. */
function isOrchestration(text: string): boolean {
  return orchestrationState.test(text);
}

/**
 * Returns a finding for each function that is called but not supported, with the first file and
 * line that calls it.
 */
export async function templateCallFindings(settings: Settings): Promise<MigrationFinding[]> {
  const served = new Set(await loadTemplateFunctionNames());
  const places = new Map<string, { readonly file: string; readonly line: number }[]>();
  for (const { file, text } of await masterTemplates(settings)) {
    for (const { fun, line } of callsIn(text)) {
      if (!served.has(fun)) places.set(fun, [...(places.get(fun) ?? []), { file, line }]);
    }
  }
  return [...places].map(([fun, found]) => {
    const [{ file, line } = { file: '', line: 0 }] = found;
    const others = new Set(found.slice(1).map((it) => `${it.file}:${it.line}`));
    const more = others.size === 0 ? '' : ` Also at ${[...others].slice(0, maxNamed).join(', ')}`;
    const rest = others.size > maxNamed ? ', …' : '';
    return {
      outcome: 'refused',
      kind: 'part',
      name: `salt['${fun}']`,
      file,
      line,
      meaning: `Templates that the master renders cannot call this function.${more}${rest}${more && '.'}`,
      remedy:
        'Use a function from docs/compatibility.md, or let a program provide the value as pillar.',
    };
  });
}

const maxNamed = 5;

function callsIn(text: string): { readonly fun: string; readonly line: number }[] {
  // Keep line breaks, so that line numbers stay correct.
  const code = text.replace(comment, (it) => it.replace(/[^\n]/g, ' '));
  return [...code.matchAll(expression)].flatMap(({ 0: part, index }) =>
    [...part.matchAll(call)].map(({ 2: key, 3: attribute, index: place }) => ({
      fun: key ?? attribute ?? '',
      line: code.slice(0, index + place).split('\n').length,
    })),
  );
}

/**
 * Returns the files with templates that the master renders: pillar files, and orchestrations below
 * `file_roots`.
 */
async function masterTemplates(settings: Settings): Promise<TemplateFile[]> {
  const found: TemplateFile[] = [];
  for (const option of ['pillar_roots', 'file_roots'] as const) {
    for (const { directory } of rootsOf(settings, option)) {
      const { files } = await walkFiles(directory);
      for (const file of files.filter((name) => templateName.test(name))) {
        const text = (await readStart(file, maxFormulaBytes)) ?? '';
        if (option === 'pillar_roots' || isOrchestration(text)) found.push({ file, text });
      }
    }
  }
  return found;
}

/** Names of files that Jinja renders, or that templates import. */
const templateName = /\.(?:sls|jinja2?|j2|ya?ml|json)$/;
