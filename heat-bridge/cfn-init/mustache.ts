/**
 * Mustache as far as files of CloudFormation use it: variables, sections, inverted sections, comments.
 * Values are data: what they contain is never read as a template again.
 */

import { isPlainMap } from '../commands/command-definition.ts';
import { configError } from './config.ts';

/** A template that was read. */
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
  /** Whether `{{name}}` is escaped as in HTML, which the language says. `{{{name}}}` never is. */
  readonly escapesHtml: boolean;
  /** Named in errors. */
  readonly place: string;
  /** Characters of the result. */
  readonly maxLength: number;
}

const maxDepth = 32;
const nameForm = /^(?:\.|[^\s.{}]+(?:\.[^\s.{}]+)*)$/u;
/** The longest names first: `{{{name}}}` is one tag. */
const tagForm = /\{\{(?:\{([^}]*)\}|([^}]*))\}\}/g;

/** @throws BridgeError ERR_CFN_INIT */
export function renderMustache(
  template: string,
  context: Readonly<Record<string, unknown>>,
  options: MustacheOptions,
): string {
  const nodes = parseTemplate(template, options);
  const parts: string[] = [];
  let length = 0;
  const write = (text: string): void => {
    length += text.length;
    // Sections repeat what is in them, and may be nested.
    if (length > options.maxLength) {
      throw configError(options.place, `more than ${options.maxLength} characters`);
    }
    parts.push(text);
  };
  renderNodes(nodes, [context], write, options);
  return parts.join('');
}

/** @throws BridgeError ERR_CFN_INIT */
function parseTemplate(template: string, { place }: MustacheOptions): Node[] {
  const root: Node[] = [];
  const open: { readonly name: string; readonly nodes: Node[] }[] = [{ name: '', nodes: root }];
  let at = 0;
  for (const match of template.matchAll(tagForm)) {
    const current = open.at(-1)?.nodes ?? root;
    let end = match.index + match[0].length;
    const [sigil, name] = tagOf(match, place);
    let start = match.index;
    if (isBlockTag(sigil)) [start, end] = standaloneLine(template, start, end, at);
    if (start > at) current.push({ kind: 'text', text: template.slice(at, start) });
    at = end;
    switch (sigil) {
      case '#':
      case '^': {
        if (open.length > maxDepth) throw configError(place, 'sections are nested too deep');
        const nodes: Node[] = [];
        current.push({ kind: 'section', name, isInverted: sigil === '^', nodes });
        open.push({ name, nodes });
        break;
      }
      case '/':
        if (open.length === 1 || open.at(-1)?.name !== name) {
          throw configError(place, `{{/${name}}} closes no section`);
        }
        open.pop();
        break;
      case '':
      case '&':
        current.push({ kind: 'variable', name, isEscaped: sigil === '' });
        break;
    }
  }
  if (open.length > 1) throw configError(place, `the section ${open.at(-1)?.name} is not closed`);
  if (at < template.length) root.push({ kind: 'text', text: template.slice(at) });
  return root;
}

type Sigil = '' | '!' | '#' | '&' | '/' | '^';

function isBlockTag(sigil: Sigil): boolean {
  return sigil !== '' && sigil !== '&';
}

function tagOf(match: RegExpMatchArray, place: string): readonly [Sigil, string] {
  const [, unescaped, tag = ''] = match;
  if (unescaped !== undefined) return ['&', checkedName(unescaped, place)];
  const trimmed = tag.trim();
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
      throw configError(place, 'partials and other delimiters are not supported in Mustache');
    default:
      return ['', checkedName(trimmed, place)];
  }
}

function checkedName(text: string, place: string): string {
  const name = text.trim();
  if (nameForm.test(name)) return name;
  throw configError(place, 'a Mustache tag names no variable');
}

/** A section or comment that has a line for itself takes the line with it. */
function standaloneLine(
  template: string,
  start: number,
  end: number,
  from: number,
): [number, number] {
  const lineStart = template.lastIndexOf('\n', start - 1) + 1;
  const nextBreak = template.indexOf('\n', end);
  const lineEnd = nextBreak < 0 ? template.length : nextBreak + 1;
  const before = template.slice(lineStart, start);
  const after = template.slice(end, lineEnd);
  const isAlone = lineStart >= from && before.trim() === '' && after.trim() === '';
  return isAlone ? [lineStart, lineEnd] : [start, end];
}

function renderNodes(
  nodes: readonly Node[],
  stack: readonly unknown[],
  write: (text: string) => void,
  options: MustacheOptions,
): void {
  for (const node of nodes) {
    if (node.kind === 'text') {
      write(node.text);
      continue;
    }
    const value = lookUp(node.name, stack);
    if (node.kind === 'variable') {
      const text = textOf(value);
      write(node.isEscaped && options.escapesHtml ? escapeHtml(text) : text);
      continue;
    }
    const isThere = isTruthy(value);
    if (node.isInverted) {
      if (!isThere) renderNodes(node.nodes, stack, write, options);
      continue;
    }
    if (!isThere) continue;
    for (const one of Array.isArray(value) ? value : [value]) {
      renderNodes(node.nodes, [...stack, one], write, options);
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
