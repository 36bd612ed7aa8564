import { textRepr } from '../python/repr.ts';
import type { Value } from '../python/values.ts';

/** What a token is; operators are named by their characters. */
export type TokenType =
  | 'data'
  | 'variable_begin'
  | 'variable_end'
  | 'block_begin'
  | 'block_end'
  | 'name'
  | 'string'
  | 'integer'
  | 'float'
  | 'eof'
  | OperatorToken;

/** Every operator there is, the longer ones first. */
export const operators = [
  '//',
  '**',
  '==',
  '!=',
  '>=',
  '<=',
  '+',
  '-',
  '/',
  '*',
  '%',
  '~',
  '[',
  ']',
  '(',
  ')',
  '{',
  '}',
  '>',
  '<',
  '=',
  '.',
  ':',
  '|',
  ',',
  ';',
] as const;

/** The characters of an operator. */
export type OperatorToken = (typeof operators)[number];

/** One token of a template. */
export interface Token {
  readonly type: TokenType;
  /** The characters; for a string what it stands for. */
  readonly text: string;
  /** The number of an `integer` or `float`. */
  readonly value: Value;
  readonly line: number;
}

const descriptions: Readonly<Partial<Record<TokenType, string>>> = {
  block_begin: 'begin of statement block',
  block_end: 'end of statement block',
  variable_begin: 'begin of print statement',
  variable_end: 'end of print statement',
  data: 'template data / text',
  eof: 'end of template',
};

/** A token in jinja2's words. */
export function describeToken({ type, text }: Token): string {
  return type === 'name' ? text : describeType(type);
}

/** A type of token in jinja2's words. */
export function describeType(type: TokenType): string {
  return descriptions[type] ?? type;
}

/** A text in quotes, as messages show it. */
export function quoted(text: string): string {
  return textRepr(text);
}
