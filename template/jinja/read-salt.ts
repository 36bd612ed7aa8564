/** Statements that Salt adds [salt/utils/jinja.py]. */
import type { Expression, Statement } from './ast.ts';
import { parseExpression } from './parse-expression.ts';
import { parseTarget } from './parse-target.ts';
import { macroParts } from './read-macros.ts';
import { readImport } from './read-templates.ts';
import { Scope } from './scope.ts';
import type { Reader, StatementBody } from './statement-reader.ts';
import type { TokenStream } from './token-stream.ts';

/** Salt's `{% load_yaml as x %}`: a macro without a name, called and read. */
export function readLoad(format: string): Reader {
  return (parser, stream, line) => {
    stream.expectName('as');
    const target = parseTarget(stream, 'store');
    const name = parser.hiddenName();
    const body = parser.block('endload');
    return [
      {
        kind: 'macro',
        line,
        name,
        parameters: [],
        defaults: [],
        ...macroParts,
        body,
        scope: new Scope(),
      },
      {
        kind: 'assign',
        line,
        target,
        value: filtered(call({ kind: 'name', line, name, use: 'load' }), `load_${format}`),
      },
    ];
  };
}

/** Salt's `{% import_yaml 'file' as x %}`: the module, read. */
export function readDataImport(format: string): Reader {
  return (parser, stream, line) => {
    const node = readImport(parser, stream, line);
    const name = node.target;
    return [
      node,
      {
        kind: 'assign',
        line,
        target: { kind: 'name', line, name, use: 'store' },
        value: filtered({ kind: 'name', line, name, use: 'load' }, `load_${format}`),
      },
    ];
  };
}

const nothing = {
  positional: [],
  named: [],
  morePositional: undefined,
  moreNamed: undefined,
} as const;

function call(target: Expression): Expression {
  return { kind: 'call', line: target.line, target, ...nothing };
}

function filtered(target: Expression, name: string): Expression {
  return { kind: 'filter', line: target.line, target, name, ...nothing };
}

/** Salt's `{% profile as 'label' %}`: here nothing is measured. */
export function readProfile(parser: StatementBody, stream: TokenStream, line: number): Statement[] {
  stream.expectName('as');
  const value = parseExpression(stream);
  return [{ kind: 'do', line, value }, ...parser.block('endprofile')];
}
