/**
 * Subset of Mustache for files of CloudFormation: variables, sections, inverted sections and
 * comments. Values are inserted as text, and never parsed as templates.
 */

import type { WorkMeter } from '#runtime';
import { isPlainMap } from '../command-definition.ts';
import type { ContentBudget } from './content-budget.ts';
import { configError } from './state-config.ts';

/** Node of a parsed template. */
type Node =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string; readonly isEscaped: boolean }
  | {
      readonly kind: 'section';
      readonly name: string;
      readonly isInverted: boolean;
      readonly nodes: Node[];
    };

export interface MustacheOptions {
  /** Whether `{{name}}` is HTML-escaped, as Mustache specifies. `{{{name}}}` is never escaped. */
  readonly escapesHtml: boolean;
  /** Location for error messages. */
  readonly place: string;
  /** Limits for all files of the run. */
  readonly budget: ContentBudget;
}

const maxDepth = 32;

/** Callbacks and settings for rendering a template. */
interface Renderer {
  readonly write: (text: string) => void;
  /** Counts a rendered node against the budget. */
  readonly step: () => void;
  readonly escapesHtml: boolean;
}

const nameForm = /^(?:\.|[^\s.{}]+(?:\.[^\s.{}]+)*)$/u;
/** Maximum length of a tag's content, in characters. */
const maxTag = 256;

/** Tag of a template. `{{{name}}}` is an unescaped tag. */
interface Tag {
  readonly start: number;
  readonly end: number;
  readonly content: string;
  readonly isUnescaped: boolean;
}

/**
 * Finds the tags of a template. Takes time proportional to the length of the template, even if the
 * template consists only of braces.
 */
function* tagsOf(template: string, meter: WorkMeter): Generator<Tag, void, void> {
  let close = -1;
  for (let start = template.indexOf('{{'); start !== -1; ) {
    if (close < start + 2) {
      close = template.indexOf('}', start + 2);
      meter.spend('a Mustache template', (close === -1 ? template.length : close) - start);
    }
    if (close === -1) return;
    const tag = tagAt(template, start, close);
    if (tag !== undefined) yield tag;
    start = template.indexOf('{{', tag?.end ?? start + 1);
  }
}

function tagAt(template: string, start: number, close: number): Tag | undefined {
  if (template[start + 2] === '{' && template.startsWith('}}}', close)) {
    const content = template.slice(start + 3, close);
    if (content.length <= maxTag) return { start, end: close + 3, content, isUnescaped: true };
  }
  if (close - start - 2 > maxTag || !template.startsWith('}}', close)) return undefined;
  const content = template.slice(start + 2, close);
  return { start, end: close + 2, content, isUnescaped: false };
}

/**
 * Renders a template.
 * @throws BridgeError ERR_CFN_INIT
 */
export function renderMustache(
  template: string,
  context: Readonly<Record<string, unknown>>,
  options: MustacheOptions,
): string {
  const { escapesHtml, place, budget } = options;
  const nodes = parseTemplate(template, options);
  const parts: string[] = [];
  const write = (text: string): void => {
    // Count the written bytes, because nested sections can repeat their content many times.
    budget.addBytes(Buffer.byteLength(text), place);
    parts.push(text);
  };
  // Count the nodes too, because nested sections multiply them even if they write nothing.
  const step = (): void => budget.addTag(place);
  renderNodes(nodes, [context], { write, step, escapesHtml });
  return parts.join('');
}

/**
 * Parses a template.
 * @throws BridgeError ERR_CFN_INIT
 */
function parseTemplate(template: string, { place, budget }: MustacheOptions): Node[] {
  const root: Node[] = [];
  const open: { readonly name: string; readonly nodes: Node[] }[] = [{ name: '', nodes: root }];
  let at = 0;
  for (const tag of tagsOf(template, budget.work)) {
    const current = open.at(-1)?.nodes ?? root;
    const [sigil, name] = readTag(tag, place);
    let { start, end } = tag;
    if (isBlockTag(sigil)) [start, end] = standaloneLine(template, start, end, at);
    if (start > at) current.push({ kind: 'text', text: template.slice(at, start) });
    at = end;
    switch (sigil) {
      case '#':
      case '^': {
        if (open.length > maxDepth)
          throw configError(
            place,
            `Mustache sections are nested more than ${maxDepth} levels deep`,
          );
        const nodes: Node[] = [];
        current.push({ kind: 'section', name, isInverted: sigil === '^', nodes });
        open.push({ name, nodes });
        break;
      }
      case '/':
        if (open.length === 1 || open.at(-1)?.name !== name) {
          throw configError(
            place,
            `the Mustache tag {{/${name}}} does not close the section that was opened last`,
          );
        }
        open.pop();
        break;
      case '':
      case '&':
        current.push({ kind: 'variable', name, isEscaped: sigil === '' });
        break;
    }
  }
  if (open.length > 1)
    throw configError(place, `the Mustache section {{#${open.at(-1)?.name}}} is never closed`);
  if (at < template.length) root.push({ kind: 'text', text: template.slice(at) });
  return root;
}

type Sigil = '' | '!' | '#' | '&' | '/' | '^';

function isBlockTag(sigil: Sigil): boolean {
  return sigil !== '' && sigil !== '&';
}

function readTag({ content, isUnescaped }: Tag, place: string): readonly [Sigil, string] {
  if (isUnescaped) return ['&', checkedName(content, place)];
  const trimmed = content.trim();
  const first = trimmed.charAt(0);
  switch (first) {
    case '!':
      return ['!', ''];
    case '#':
    case '^':
    case '/':
    case '&':
      return [first, checkedName(trimmed.slice(1), place)];
    case '>':
    case '=':
      throw configError(place, 'Mustache partials and custom delimiters are not supported');
    default:
      return ['', checkedName(trimmed, place)];
  }
}

function checkedName(text: string, place: string): string {
  const name = text.trim();
  if (nameForm.test(name)) return name;
  throw configError(place, 'a Mustache tag has an invalid variable name');
}

/**
 * Extends the range of a section or comment tag to its whole line, if the line contains nothing
 * else.
 * @param from - end of the previous tag
 */
function standaloneLine(
  template: string,
  start: number,
  end: number,
  from: number,
): [number, number] {
  let first = start;
  while (first > from && isBlank(template.charAt(first - 1))) first -= 1;
  let last = end;
  while (isBlank(template.charAt(last))) last += 1;
  const startsLine = first === 0 || template.charAt(first - 1) === '\n';
  const endsLine = last >= template.length || template.charAt(last) === '\n';
  return startsLine && endsLine ? [first, Math.min(last + 1, template.length)] : [start, end];
}

function isBlank(character: string): boolean {
  return character === ' ' || character === '\t' || character === '\r';
}

function renderNodes(nodes: readonly Node[], stack: readonly unknown[], renderer: Renderer): void {
  const { write, step, escapesHtml } = renderer;
  for (const node of nodes) {
    step();
    if (node.kind === 'text') {
      write(node.text);
      continue;
    }
    const value = lookUp(node.name, stack);
    if (node.kind === 'variable') {
      const text = textOf(value);
      write(node.isEscaped && escapesHtml ? escapeHtml(text) : text);
      continue;
    }
    const isThere = isTruthy(value);
    if (node.isInverted) {
      if (!isThere) renderNodes(node.nodes, stack, renderer);
      continue;
    }
    if (!isThere) continue;
    for (const one of Array.isArray(value) ? value : [value]) {
      step();
      renderNodes(node.nodes, [...stack, one], renderer);
    }
  }
}

function lookUp(name: string, stack: readonly unknown[]): unknown {
  if (name === '.') return stack.at(-1);
  const [first = '', ...rest] = name.split('.');
  const holder = stack.findLast((it) => isPlainMap(it) && Object.hasOwn(it, first));
  let value = isPlainMap(holder) ? holder[first] : undefined;
  for (const key of rest) {
    value = isPlainMap(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value;
}

function isTruthy(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : Boolean(value);
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const htmlEntities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#x27;',
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (it) => htmlEntities[it] ?? it);
}
