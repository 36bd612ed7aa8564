/**
 * Finds unsupported functions and filters in templates. Only templates that the master renders are
 * examined.
 */

import type { Settings } from '#config';
import { loadTemplateCompatibility } from '#salt';
import type { MigrationFinding } from './finding.ts';
import { maxFormulaBytes, readStart, rootsOf, walkFiles } from './site-files.ts';

/** File and line at which a template uses an unsupported function or filter. */
interface Place {
  readonly file: string;
  readonly line: number;
}

/** A file with templates that the master renders. */
interface TemplateFile {
  readonly file: string;
  readonly text: string;
}

/**
 * Matches comments of Jinja. A comment without an end extends to the end of the text, so that the
 * search takes linear time.
 */
export const jinjaComments = /\{#(?:[^#]|#(?!\}))*(?:#\})?/g;
const expression = /\{[{%](?:[^%}]|[%}](?!\}))*(?:[%}]\})?/g;
/** Matches `salt['module.function']` and the attribute form `salt.module.function(`. */
const call = /\bsalt\s*(?:\[\s*(['"])(?<name>\w+\.\w+)\1\s*\]|\.\s*(?<attribute>\w+\.\w+)\s*\()/g;

/** Matches a state that occurs only in orchestrations. */
const orchestrationState =
  /^[ \t]*(?:-[ \t]+)?salt\.(?:state|function|runner|wheel|wait_for_event|parallel_runners)\b/m;

/**
 * Matches a filter of Jinja, such as `| join`. Texts in quotes are matched first, so that a `|` in
 * them is not taken for a filter.
 */
const filter = /(?:'[^'\n]*'|"[^"\n]*")|\|\s*(?<name>\w+)/g;

/**
 * Returns a finding for each unsupported function or filter, with the first file and line that uses
 * it. The remedy is the text of the compatibility table.
 */
export async function templateCallFindings(settings: Settings): Promise<MigrationFinding[]> {
  const { functions, insteadOf, filterRefusals } = await loadTemplateCompatibility();
  const places = new Map<string, Place[]>();
  const remedies = new Map<string, string>();
  const add = (name: string, remedy: string, place: Place): void => {
    places.set(name, [...(places.get(name) ?? []), place]);
    remedies.set(name, remedy);
  };
  for (const { file, text } of await masterTemplates(settings)) {
    const code = withoutComments(text);
    for (const { name, line } of namesIn(code, call)) {
      if (!functions.has(name)) add(`salt['${name}']`, insteadOf(name), { file, line });
    }
    for (const { name, line } of namesIn(code, filter)) {
      const reason = filterRefusals.get(name);
      if (reason !== undefined) add(`filter ${name}`, reason, { file, line });
    }
  }
  return [...places].map(([name, found]) => {
    const [{ file, line } = { file: '', line: 0 }] = found;
    const others = new Set(found.slice(1).map((it) => `${it.file}:${it.line}`));
    const more = others.size === 0 ? '' : ` Also at ${[...others].slice(0, maxNamed).join(', ')}`;
    const rest = others.size > maxNamed ? ', …' : '';
    return {
      outcome: 'refused',
      kind: 'part',
      name,
      file,
      line,
      meaning: `Templates that the master renders cannot use it.${more}${rest}${more && '.'}`,
      remedy: sentence(remedies.get(name) ?? ''),
    };
  });
}

const maxNamed = 5;

/**
 * Makes a sentence of a text from the compatibility table. The sentence refers to the page with
 * this table.
 */
function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}; see docs/compatibility/templates.md.`;
}

/** Replaces comments by blanks. Line breaks are preserved, so that line numbers stay correct. */
function withoutComments(text: string): string {
  return text.replace(jinjaComments, (it) => it.replace(/[^\n]/g, ' '));
}

/** Returns the names that a pattern captures in the expressions of a template. */
function namesIn(
  code: string,
  pattern: RegExp,
): { readonly name: string; readonly line: number }[] {
  return [...code.matchAll(expression)].flatMap(({ 0: part, index }) =>
    [...part.matchAll(pattern)].flatMap(({ groups, index: place }) => {
      const name = groups?.name ?? groups?.attribute;
      const line = code.slice(0, index + place).split('\n').length;
      return name === undefined ? [] : [{ name, line }];
    }),
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
        if (option === 'pillar_roots' || orchestrationState.test(text)) found.push({ file, text });
      }
    }
  }
  return found;
}

/** Matches the names of files that Jinja renders, and of files that templates import. */
const templateName = /\.(?:sls|jinja2?|j2|ya?ml|json)$/;
