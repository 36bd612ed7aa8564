/**
 * Adapts the `yaml` package to PyYAML and libyaml: the types of plain scalars, and block scalars on
 * the last line of a text.
 */

import { type Document, type Scalar, type Tags, visit } from 'yaml';
import { Float } from './values.ts';
import { constructScalar, scalarForms } from './yaml-scalar.ts';

/** Maximum length of a number, in digits. The time to parse it grows faster than its length. */
const maxDigits = 1000;

const core = 'tag:yaml.org,2002:';
const scalarTags = (['null', 'bool', 'int', 'float'] as const).map((name) => ({
  tag: `${core}${name}`,
  default: true,
  test: scalarForms[name],
  resolve: (text: string) => toScalar(name, text),
}));

/**
 * Tags with which the schema `failsafe` reads plain scalars like PyYAML. A float without a fraction
 * becomes a {@link Float}.
 */
export const pythonTags: Tags = [
  'merge',
  'binary',
  { tag: `${core}str`, default: 'key', test: /^=$/, resolve: asText },
  { tag: `${core}value`, default: true, test: /^(?:=|<<)$/, resolve: refuse },
  ...scalarTags,
  // These tags have no pattern. They apply only to values with an explicit tag such as `!!float 5`.
  ...scalarTags.map(({ tag, resolve }) => ({ tag, resolve })),
  { tag: `${core}timestamp`, resolve: asText },
];

function asText(text: string): string {
  return text;
}

function toScalar(tag: string, text: string): unknown {
  if (tag === 'int' && text.length > maxDigits) {
    throw new SyntaxError(`a number in the YAML text has more than ${maxDigits} digits`);
  }
  const value = constructScalar(tag, text);
  if (value === undefined) throw new SyntaxError(`a YAML value is not valid for its type ${tag}`);
  return value instanceof Float && !Number.isSafeInteger(value.value) ? value.value : value;
}

function refuse(): never {
  throw new SyntaxError('the YAML values = and << are not supported');
}

/**
 * Corrects a block scalar at the end of a text that has no final line break. The `yaml` package
 * adds a line break to the value of this scalar. This function removes it, because libyaml adds
 * none.
 */
export function correctLastBlock(document: Document, text: string): void {
  if (text.endsWith('\n')) return;
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value === 'string') node.value = blockText(node, node.value, text);
    },
  });
}

/**
 * Returns the value of a scalar as libyaml reads it.
 * @param value - value that the `yaml` package has read
 * @param text - text of the whole document
 */
export function blockText({ type, range }: Scalar, value: string, text: string): string {
  const isBlock = type === 'BLOCK_LITERAL' || type === 'BLOCK_FOLDED';
  if (!isBlock || (range?.[1] ?? 0) < text.length) return value;
  return withoutMissingBreak(value, lastLineOf(text));
}

/**
 * Returns the text of a block scalar as libyaml does. If the last line of the document has no line
 * break, the text has none either. The `yaml` package always adds one.
 */
function withoutMissingBreak(text: string, lastLine: string): string {
  if (lastLine === '' || !text.endsWith('\n')) return text;
  const content = text.slice(0, -1);
  const end = content.slice(content.lastIndexOf('\n') + 1);
  const words = lastLine.trimStart();
  const isLastLine =
    words === ''
      ? end !== '' && end.trimStart() === '' && lastLine.endsWith(end)
      : content.endsWith(words);
  return isLastLine ? content : text;
}

/** Returns the last line of a text if it has no line break at its end, otherwise an empty text. */
function lastLineOf(text: string): string {
  return text.slice(Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r')) + 1);
}
