/**
 * Regular expressions of the product take linear time, also those in JSON Schemas and those that
 * are built from constants. A text that a stranger, a minion or a user can send would otherwise
 * stop the master for a time that grows with the square of its length.
 */

import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Node, parse } from 'acorn';
import test from 'ava';
import { transformSync } from 'esbuild';
import { analyse } from 'scslre';
import packageFile from '../../package.json' with { type: 'json' };

const root = fileURLToPath(new URL('../../', import.meta.url));

/**
 * Expressions that the analysis reports although their work is limited, by file, with the reason.
 */
const limited: Readonly<Record<string, string>> = {
  'template/python/text-wrap.ts':
    'the expression of Python, whose work the filter wordwrap counts before it runs',
};

/** Folders of the product's source code. */
const rooms = Object.values(packageFile.imports).flatMap((file) =>
  file.endsWith('/*') ? [file.slice(2, -2)] : [],
);

interface Found {
  readonly file: string;
  readonly source: string;
  readonly flags: string;
}

/**
 * Modules that build expressions from constants when they are loaded. A test loads them and
 * analyses these expressions.
 */
const builtWhenLoaded = [
  'acl/reserved-tags.ts',
  'cli/commands/salt-usage.ts',
  'heat-bridge/enroll/existing-user-data.ts',
  'server/migration/reactor-file-calls.ts',
  'template/python/text.ts',
  'template/jinja/lexer.ts',
];

/** Other modules that build expressions, with the reason why their work is limited. */
const builtLater: Readonly<Record<string, string>> = {
  'guests/deployments/inline-sls.ts': 'built from constants; a test below analyses them',
  'master/jobs/slow-pattern-worker.ts': 'a thread evaluates it, and is terminated after 250 ms',
  'minion-protocol/targeting/pattern.ts':
    'only checked for mistakes, or from options of the operator for names of files',
  'runtime/schema-mistakes.ts': 'the pattern is in a schema of the source code, analysed below',
  'salt/render/event-text.ts': 'a random text, which no sender knows, and a number',
  'salt/render/late-grains.ts': 'a random text, which no sender knows, and a number',
};

const parsed = new Map<string, Node>();

function syntaxOf(file: string): Node {
  const text = readFileSync(path.join(root, file), 'utf8');
  const { code } = transformSync(text, { loader: 'ts', target: 'esnext' });
  const syntax = parsed.get(file) ?? parse(code, { ecmaVersion: 'latest', sourceType: 'module' });
  parsed.set(file, syntax);
  return syntax;
}

function nodesIn(file: string): Node[] {
  const found: Node[] = [];
  visit(syntaxOf(file), (node) => found.push(node));
  return found;
}

function visit(value: unknown, take: (node: Node) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) visit(item, take);
  } else if (isNode(value)) {
    take(value);
    visit(Object.values(value), take);
  }
}

/** Returns the regular expressions that a file contains as literals. */
function expressionsIn(file: string): Found[] {
  return nodesIn(file).flatMap((node) => {
    const { regex } = Object(node);
    return regex === undefined ? [] : [{ file, source: regex.pattern, flags: regex.flags }];
  });
}

/** Returns the patterns of the JSON Schemas in a file. */
function schemaPatternsIn(file: string): Found[] {
  return nodesIn(file).flatMap((node) => {
    const { type, key, value } = Object(node);
    const isPattern = type === 'Property' && key.name === 'pattern';
    return isPattern && typeof value.value === 'string'
      ? [{ file, source: value.value, flags: 'u' }]
      : [];
  });
}

/** Whether a file calls `RegExp`. */
function buildsExpressions(file: string): boolean {
  return nodesIn(file).some((node) => {
    const { type, callee } = Object(node);
    return (type === 'NewExpression' || type === 'CallExpression') && callee.name === 'RegExp';
  });
}

/** Returns the expressions that a function builds with `RegExp`. */
async function builtBy(work: () => unknown): Promise<Pick<Found, 'flags' | 'source'>[]> {
  const built: Pick<Found, 'flags' | 'source'>[] = [];
  const original = globalThis.RegExp;
  const note = (words: unknown[]): RegExp => {
    const regex: RegExp = Reflect.construct(original, words);
    built.push({ source: regex.source, flags: regex.flags });
    return regex;
  };
  globalThis.RegExp = new Proxy(original, {
    construct: (_, words) => note(words),
    apply: (_, __, words) => note(words),
  });
  try {
    await work();
  } finally {
    globalThis.RegExp = original;
  }
  return built;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}

/** Whether a text exists for which the time is more than proportional to its length. */
function isSlow({ source, flags }: Pick<Found, 'flags' | 'source'>): boolean {
  const reportTypes = { Self: true, Trade: true, Move: true } as const;
  return analyse({ source, flags }, { reportTypes, maxReports: 1 }).reports.length > 0;
}

test('the analysis finds expressions that take quadratic or exponential time', (t) => {
  for (const source of [String.raw`\/+$`, String.raw`^\s*-?\s*x`, '^(?:a+)*$', '<.*?>']) {
    t.true(isSlow({ source, flags: 's' }), source);
  }
  for (const source of ['^/+', '<[^>]*>?', '[*?[].*']) {
    t.false(isSlow({ source, flags: 's' }), source);
  }
});

const files = rooms.flatMap((room) =>
  readdirSync(path.join(root, room), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => path.join(room, name)),
);

test('every pattern of a JSON Schema of the product takes linear time', (t) => {
  const patterns = files.flatMap(schemaPatternsIn);
  t.true(patterns.length > 40);
  t.deepEqual(patterns.filter(isSlow), []);
});

test('every place that builds an expression is known', (t) => {
  const known = [...builtWhenLoaded, ...Object.keys(builtLater)];
  t.deepEqual(files.filter(buildsExpressions).sort(), known.sort());
});

test.serial('expressions that are built from constants take linear time', async (t) => {
  const loaded = await builtBy(async () => {
    for (const file of builtWhenLoaded) await import(path.join(root, file));
  });
  t.true(loaded.length >= 10, `${loaded.length}`);
  const { tokenize } = await import('#template/jinja/lexer.ts');
  const { slsWithInputs } = await import('#guests/deployments/inline-sls.ts');
  const later = await builtBy(() => {
    for (const trimBlocks of [false, true]) tokenize('a', { trimBlocks }).next();
    t.throws(() => slsWithInputs("{{ pillar.get('a') ~ x }}", { inputs: { a: 1 }, facts: {} }));
  });
  t.true(later.length >= 10, `${later.length}`);
  t.deepEqual([...loaded, ...later].filter(isSlow), []);
});

test('every regular expression of the product takes linear time', (t) => {
  const expressions = files.flatMap(expressionsIn);
  t.true(expressions.length > 500);
  const slow = expressions.filter(isSlow);
  t.deepEqual(
    slow
      .filter(({ file }) => !Object.hasOwn(limited, file))
      .map(({ file, source }) => [file, source]),
    [],
  );
  // An exception that nothing needs any more is removed.
  t.deepEqual([...new Set(slow.map(({ file }) => file))].sort(), Object.keys(limited).sort());
});
