/** Parses YAML like PyYAML's safe loader with Salt's changes [yamlloader.py]. */

import {
  type Alias,
  Composer,
  CST,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  Parser,
  type Scalar,
  visit,
  type YAMLError,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import { TemplateError } from './errors.ts';
import { type PlainData, toPlain } from './python/convert.ts';
import { repr, str } from './python/repr.ts';
import { isHashable } from './python/subscripts.ts';
import { Dict, PySet, Tuple, type Value } from './python/values.ts';
import { blockText } from './python/yaml-nodes.ts';
import { constructScalar, resolveTag } from './python/yaml-scalar.ts';

/**
 * Creates a lexer of the `yaml` package that ignores indentation inside brackets and quotes, like
 * PyYAML. Salt's filter `yaml` breaks lines after 80 characters, and templates insert its output at
 * any depth. The package has no option for this, so its methods are wrapped.
 */
function createLenientLexer(): Lexer {
  const lexer = new Lexer();
  for (const method of ['parseFlowCollection', 'parseQuotedScalar']) ignoreIndent(lexer, method);
  keepBlankLines(lexer);
  return lexer;
}

/**
 * Makes the lexer include the last lines of a block scalar with an indentation indicator (`|2`), if
 * they consist of blanks. As in libyaml, blanks beyond the indentation are text.
 */
function keepBlankLines(lexer: Lexer): void {
  wrap(lexer, 'parseBlockScalar', (parse) => {
    if (Reflect.get(lexer, 'blockScalarIndent') !== -1) Reflect.set(lexer, 'blockScalarKeep', true);
    return parse();
  });
}

function ignoreIndent(lexer: Lexer, method: string): void {
  wrap(lexer, method, function* lenient(parse) {
    const least: unknown = Reflect.get(lexer, 'indentNext');
    Reflect.set(lexer, 'indentNext', 0);
    const next = yield* parse();
    Reflect.set(lexer, 'indentNext', least);
    return next;
  });
}

type Parsing = Generator<unknown, unknown>;

/**
 * Replaces a method of the lexer. `replacement` receives a function that calls the original method.
 */
function wrap(lexer: Lexer, method: string, replacement: (parse: () => Parsing) => Parsing): void {
  const parse: unknown = Reflect.get(lexer, method);
  if (typeof parse !== 'function')
    throw new TypeError(`internal error: the YAML lexer does not define ${method}`);
  Reflect.set(lexer, method, () => replacement(() => parse.call(lexer)));
}

/** Options for parsing YAML. */
export interface YamlOptions {
  /** Name of the text in errors, for example `web/init.sls`. */
  readonly name: string;
  /** Maximum number of nodes after expanding all aliases. Default: 1,000,000. */
  readonly maxNodes?: number;
  /** Maximum nesting depth. Default: 100. */
  readonly maxDepth?: number;
  /** Prefixes of the placeholders in the text. Default: the text has no placeholders. */
  readonly marks?: TextMarks | undefined;
}

/**
 * Prefixes of the placeholders in a text. A placeholder stands for a late value: a value that a
 * template has output without reading it. See python/late.ts.
 */
export interface TextMarks {
  readonly text: string;
  /**
   * Prefix of placeholders in plain (unquoted) scalars, where it replaces `text`. YAML could read
   * such a scalar as another type than text.
   */
  readonly plain: string;
}

const defaultNodes = 1_000_000;
const defaultDepth = 100;
/** Size of a node without its text, in characters. */
const nodeCharacters = 10;
/** Maximum size that aliases may add to the nodes of a text, in characters. */
const maxAliasCharacters = 4_000_000;
const core = 'tag:yaml.org,2002:';

/**
 * Key and value in a mapping. The pair may belong to another mapping that `<<` merges into this
 * one.
 */
interface Pair {
  readonly key: Node;
  readonly value: Node | null;
}

/**
 * Parses one document. An empty text is `None`.
 * @throws TemplateError ERR_YAML with file and line; ERR_TEMPLATE_LIMIT for excessive aliases or
 * nesting
 */
export function loadYaml(given: string, options: YamlOptions): Value {
  const text = given.startsWith('\ufeff') ? given.slice(1) : given;
  const lines = new LineCounter();
  const problems = new Problems(options.name, lines);
  const control = /[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}\ufeff]/u.exec(
    text,
  );
  const document = parse(text, lines, problems, options.maxDepth ?? defaultDepth);
  if (control !== null) {
    problems.fail('ReaderError', 'special characters are not allowed', control.index);
  }
  const [error] = errorsOf(document);
  // The parser's stack overflowed before the limit of the nesting depth was reached.
  if (error?.message.includes('call stack')) {
    problems.tooMuch('levels of nesting', defaultDepth, error.pos[0]);
  }
  if (error !== undefined) problems.fail('ParserError', firstLine(error.message), error.pos[0]);
  const root: Node | null = document.contents;
  if (root === null) return null;
  const aliases = new Aliases(document, problems);
  new Bounds(aliases, problems, options).checkRoot(root);
  new StrictForms(aliases, problems, text).checkRoot(root);
  return new Constructor(aliases, problems, text, options.marks).construct(root);
}

/**
 * Returns those errors of a document that libyaml would report too. Omits the errors about a
 * comment directly after a quoted text, a bracket or a comma, because libyaml accepts such a
 * comment.
 */
function errorsOf({ errors }: Document): readonly YAMLError[] {
  return errors.filter(({ message }) => !message.startsWith('Comments must be separated'));
}

function firstLine(message: string): string {
  const [line = ''] = message.split('\n');
  return line.replace(/ at line \d+, column \d+:?$/, '');
}

function parse(
  text: string,
  lineCounter: LineCounter,
  problems: Problems,
  maxDepth: number,
): Document<Node> {
  const composer = new Composer({
    logLevel: 'error',
    schema: 'failsafe',
    uniqueKeys: false,
    version: '1.1',
  });
  const levels = new Levels(problems, maxDepth);
  const lexed = new Directives(problems).checked(tokens(text, lineCounter, levels));
  try {
    const [document, second] = composer.compose(lexed, true, text.length);
    if (document === undefined)
      throw new TypeError('internal error: the YAML parser returned no document');
    if (second !== undefined && errorsOf(document).length === 0) {
      problems.fail('ParserError', 'Source contains multiple documents', second.range[0]);
    }
    return document;
  } catch (cause) {
    if (cause instanceof RangeError) problems.tooMuch('levels of nesting', defaultDepth, 0);
    throw cause;
  }
}

function* tokens(text: string, lineCounter: LineCounter, levels: Levels): Generator<CST.Token> {
  const parser = new Parser(lineCounter.addNewLine);
  lineCounter.addNewLine(0);
  for (const lexeme of createLenientLexer().lex(text)) {
    levels.check(lexeme);
    yield* parser.next(lexeme);
  }
  yield* parser.end();
}

/** Characters that libyaml accepts in the prefix of `%TAG`. */
const uriText = /^(?:[\w\-;/?:@&=+$,.!~*'()[\]]|%[0-9a-f]{2})*$/i;

/** Rejects directives (`%YAML`, `%TAG`) that libyaml rejects and the `yaml` package ignores. */
class Directives {
  readonly #problems: Problems;
  /**
   * Directives before the next document: `%YAML`, or `%TAG` with its handle. Used to find
   * duplicates.
   */
  readonly #known = new Set<string>();

  constructor(problems: Problems) {
    this.#problems = problems;
  }

  /**
   * Yields the given tokens unchanged, and checks each directive among them.
   * @throws TemplateError ERR_YAML for a directive that libyaml rejects, or if no document follows
   * a directive
   */
  *checked(given: Iterable<CST.Token>): Generator<CST.Token> {
    let end = 0;
    for (const token of given) {
      if (token.type === 'directive') this.#check(token.source, token.offset);
      if (token.type === 'document') this.#known.clear();
      end = token.offset;
      yield token;
    }
    if (this.#known.size > 0) {
      this.#problems.fail('ParserError', 'did not find expected <document start>', end);
    }
  }

  #check(source: string, offset: number): void {
    const [directive = '', value = '', prefix = ''] = source.trim().split(/[ \t]+/);
    const fail = (detail: string): never => this.#problems.fail('ScannerError', detail, offset);
    if (directive === '%') fail('could not find expected directive name');
    if (directive !== '%YAML' && directive !== '%TAG') fail('found unknown directive name');
    if (directive === '%YAML' && /^\d+\.\d+$/.test(value) && !/^0*1\.0*[12]$/.test(value)) {
      fail('found incompatible YAML document');
    }
    if (directive === '%TAG' && value !== '' && !/^!(?:[\w-]*!)?$/.test(value)) {
      fail("did not find expected '!'");
    }
    if (directive === '%TAG' && !uriText.test(prefix)) {
      fail('did not find expected whitespace or line break');
    }
    const name = directive === '%TAG' ? `${directive} ${value}` : directive;
    if (this.#known.has(name)) fail(`found duplicate ${directive} directive`);
    this.#known.add(name);
  }
}

/**
 * Limits the nesting depth while the text is split into tokens. Parsing deeply nested text and
 * reporting its errors would take a thousand times longer.
 */
class Levels {
  readonly #problems: Problems;
  readonly #max: number;
  #flows = 0;
  #indicators = 0;
  #offset = 0;

  constructor(problems: Problems, max: number) {
    this.#problems = problems;
    this.#max = max;
  }

  /**
   * Counts a lexeme that opens or closes a level, and checks the nesting depth.
   * @throws TemplateError ERR_TEMPLATE_LIMIT
   */
  check(lexeme: string): void {
    switch (CST.tokenType(lexeme)) {
      case 'flow-seq-start':
      case 'flow-map-start':
        this.#flows += 1;
        break;
      case 'flow-seq-end':
      case 'flow-map-end':
        this.#flows = Math.max(0, this.#flows - 1);
        break;
      case 'seq-item-ind':
      case 'explicit-key-ind':
        this.#indicators += this.#flows === 0 ? 1 : 0;
        break;
      case 'newline':
        this.#indicators = 0;
        break;
      case 'byte-order-mark':
      case 'doc-mode':
      case 'flow-error-end':
      case 'scalar':
        // The lexer produces some tokens without advancing in the text.
        return;
    }
    if (this.#flows > this.#max || this.#indicators > this.#max) {
      this.#problems.tooMuch('levels of nesting', this.#max, this.#offset);
    }
    this.#offset += lexeme.length;
  }
}

/**
 * Throws exceptions for problems in a YAML text. Each exception contains the line of the problem.
 */
class Problems {
  readonly #name: string;
  readonly #lines: LineCounter;

  constructor(name: string, lines: LineCounter) {
    this.#name = name;
    this.#lines = lines;
  }

  /**
   * Throws a YAML error.
   * @throws TemplateError ERR_YAML
   */
  fail(kind: string, detail: string, offset: number | undefined): never {
    throw new TemplateError('ERR_YAML', { place: this.#place(offset), kind, detail });
  }

  /**
   * Throws the error for an exceeded limit.
   * @throws TemplateError ERR_TEMPLATE_LIMIT
   */
  tooMuch(what: string, limit: number, offset: number | undefined): never {
    const detail = `the limit of ${what} is exceeded: the maximum is ${limit}`;
    const place = this.#place(offset);
    throw new TemplateError('ERR_TEMPLATE_LIMIT', { place, kind: 'LimitExceeded', detail });
  }

  #place(offset: number | undefined): { file: string; line: number } {
    const { line } = this.#lines.linePos(offset ?? 0);
    return { file: this.#name, line: Math.max(1, line) };
  }
}

function offsetOf(node: Node): number | undefined {
  return node.range?.[0];
}

/** Finds the nodes that aliases name. */
class Aliases {
  readonly #document: Document<Node>;
  readonly #problems: Problems;
  #targets: ReadonlyMap<Alias, Node> | undefined;

  constructor(document: Document<Node>, problems: Problems) {
    this.#document = document;
    this.#problems = problems;
  }

  /** @throws TemplateError ERR_YAML if no node before the alias has the anchor */
  resolve(alias: Alias): Node {
    this.#targets ??= this.#find();
    const node = this.#targets.get(alias);
    if (node !== undefined) return node;
    return this.#problems.fail(
      'ComposerError',
      `found undefined alias '${alias.source}'`,
      offsetOf(alias),
    );
  }

  /** Visits the document once. `Alias.resolve` would visit it again for each alias. */
  #find(): ReadonlyMap<Alias, Node> {
    const anchors = new Map<string, Node>();
    const targets = new Map<Alias, Node>();
    visit(this.#document, {
      Node: (_key, node) => {
        if (isAlias(node)) {
          const target = anchors.get(node.source);
          if (target !== undefined) targets.set(node, target);
        } else if (node.anchor !== undefined) anchors.set(node.anchor, node);
      },
    });
    return targets;
  }
}

/** Size of a node after expanding the aliases in it. */
interface NodeSize {
  readonly nodes: number;
  /** Length of all texts, with {@link nodeCharacters} for each node. */
  readonly characters: number;
}

/** Checks the number and size of nodes and the depth before values are constructed. */
class Bounds {
  readonly #aliases: Aliases;
  readonly #problems: Problems;
  readonly #maxNodes: number;
  readonly #maxDepth: number;
  /** Size of the nodes that were visited, without the nodes that aliases add. In characters. */
  #ownCharacters = 0;
  readonly #sizes = new Map<Node, NodeSize>();
  readonly #open = new Set<Node>();

  constructor(aliases: Aliases, problems: Problems, options: YamlOptions) {
    this.#aliases = aliases;
    this.#problems = problems;
    this.#maxNodes = options.maxNodes ?? defaultNodes;
    this.#maxDepth = options.maxDepth ?? defaultDepth;
  }

  checkRoot(root: Node): void {
    this.#check(root);
  }

  #check(node: Node): NodeSize {
    const known = this.#sizes.get(node);
    if (known !== undefined) return known;
    if (this.#open.has(node)) {
      this.#problems.fail(
        'ConstructorError',
        'found unconstructable recursive node',
        offsetOf(node),
      );
    }
    if (this.#open.size >= this.#maxDepth) {
      this.#problems.tooMuch('levels of nesting', this.#maxDepth, offsetOf(node));
    }
    this.#open.add(node);
    const size = this.#sizeOf(node);
    this.#open.delete(node);
    if (size.nodes > this.#maxNodes) {
      this.#problems.tooMuch('nodes', this.#maxNodes, offsetOf(node));
    }
    if (size.characters - this.#ownCharacters > maxAliasCharacters) {
      this.#problems.tooMuch('characters that aliases add', maxAliasCharacters, offsetOf(node));
    }
    this.#sizes.set(node, size);
    return size;
  }

  #sizeOf(node: Node): NodeSize {
    let nodes = 1;
    let characters = nodeCharacters + (isScalar(node) ? textOf(node).length : 0);
    this.#ownCharacters += characters;
    for (const part of partsOf(node, this.#aliases)) {
      const size = this.#check(part);
      nodes += size.nodes;
      characters += size.characters;
    }
    return { nodes, characters };
  }
}

/** Rejects syntax that libyaml rejects and the `yaml` package accepts. */
class StrictForms {
  readonly #aliases: Aliases;
  readonly #problems: Problems;
  readonly #text: string;
  readonly #anchors = new Set<string>();

  constructor(aliases: Aliases, problems: Problems, text: string) {
    this.#aliases = aliases;
    this.#problems = problems;
    this.#text = text;
  }

  /**
   * Checks the document. As in libyaml, a block scalar must be indented if it is the whole
   * document.
   */
  checkRoot(root: Node): void {
    if (isBlockScalar(root) && isUnindented(sourceOf(root, this.#text))) {
      this.#problems.fail('ParserError', 'did not find expected <document start>', offsetOf(root));
    }
    this.check(root);
  }

  check(node: Node, isInFlow = false): void {
    if (isAlias(node)) return;
    const { anchor } = node;
    if (anchor !== undefined) {
      if (!/^[\w-]+$/.test(anchor)) {
        const detail =
          'while scanning an anchor: did not find expected alphabetic or numeric character';
        this.#problems.fail('ScannerError', detail, offsetOf(node));
      }
      if (this.#anchors.has(anchor)) {
        this.#problems.fail('ComposerError', 'found duplicate anchor', offsetOf(node));
      }
      this.#anchors.add(anchor);
    }
    if (isScalar(node)) this.#checkScalar(node, isInFlow);
    const isFlow = isInFlow || (!isScalar(node) && node.flow === true);
    if (isMap<Node, Node | null>(node) && node.flow !== true) {
      for (const { key } of node.items) this.#checkKey(key);
    }
    if (isSeq<Node>(node) && node.flow === true) {
      for (const item of node.items) this.#checkFlowItem(item);
    }
    for (const part of partsOf(node, this.#aliases)) {
      this.check(part, isFlow);
    }
  }

  /** Rejects an item of a flow sequence that is only a question mark without a key. */
  #checkFlowItem(item: Node): void {
    if (!isMap<Node, Node | null>(item)) return;
    const [from, to] = item.range ?? [0, 1];
    if (from === to && this.#text.slice(0, from).trimEnd().endsWith('?')) {
      this.#problems.fail('ParserError', "did not find expected ',' or ']'", from);
    }
  }

  /** Rejects an empty key in a block mapping, unless a question mark precedes the key. */
  #checkKey(key: Node): void {
    const [from, to] = key.range ?? [0, 0];
    if (!isScalar(key) || from !== to || key.anchor !== undefined || key.tag !== undefined) return;
    if (!this.#text.slice(0, from).trimEnd().endsWith('?')) {
      this.#problems.fail('ParserError', 'did not find expected key', from);
    }
  }

  #checkScalar({ type, range }: Scalar, isInFlow: boolean): void {
    const [from, to] = range ?? [0, 0];
    const isIndicator = isInFlow && from < to && this.#text[from] === ':';
    if (type === 'PLAIN' && (isIndicator || /^:[,?[\]{}]/.test(this.#text.slice(to, to + 2)))) {
      this.#problems.fail('ScannerError', "found unexpected ':'", from);
    }
    // libyaml treats a question mark at the beginning of a word inside brackets as the indicator of
    // a key.
    if (type === 'PLAIN' && isInFlow && from < to && this.#text[from] === '?') {
      this.#problems.fail('ParserError', "found '?' at the begin of a value in brackets", from);
    }
    if (type === 'QUOTE_DOUBLE' && surrogateEscape.test(this.#text.slice(from, to))) {
      this.#problems.fail('ScannerError', 'found invalid Unicode character escape code', from);
    }
    if (isBlockType(type) && hasTabAsIndentation(this.#text.slice(from, to))) {
      const detail = 'found a tab character where an indentation space is expected';
      this.#problems.fail('ScannerError', detail, from);
    }
  }
}

/**
 * Matches an escaped half of a surrogate pair, such as `\uD83D`. In YAML, such characters must be
 * written as `\UXXXXXXXX`.
 */
const surrogateEscape = /(?<!\\)(?:\\\\)*\\(?:u|U0000)[dD][89a-fA-F]/;

function isBlockType(type: Scalar['type']): boolean {
  return type === 'BLOCK_LITERAL' || type === 'BLOCK_FOLDED';
}

function isBlockScalar(node: Node): node is Scalar {
  return isScalar(node) && isBlockType(node.type);
}

function sourceOf({ range }: Node, text: string): string {
  return text.slice(range?.[0] ?? 0, range?.[1] ?? 0);
}

/** Whether the first line with text in a block scalar has no indentation. */
function isUnindented(scalar: string): boolean {
  const [, ...lines] = scalar.split(/\r\n?|\n/);
  const first = lines.find((line) => !/^[ \t]*$/.test(line));
  return first !== undefined && !/^[ \t]/.test(first);
}

/** Whether a block scalar without an explicit indentation has a tab before its first text. */
function hasTabAsIndentation(scalar: string): boolean {
  const [header = '', ...lines] = scalar.split(/\r\n?|\n/);
  if (/\d/.test(header.replace(/#.*/, ''))) return false;
  const first = lines.find((line) => !/^ *$/.test(line));
  return first !== undefined && /^ *\t/.test(first);
}

function partsOf(node: Node, aliases: Aliases): Node[] {
  if (isAlias(node)) return [aliases.resolve(node)];
  if (isSeq<Node>(node)) return node.items;
  if (isMap<Node, Node | null>(node)) {
    return node.items.flatMap(({ key, value }) => (value === null ? [key] : [key, value]));
  }
  return [];
}

class Constructor {
  readonly #aliases: Aliases;
  readonly #problems: Problems;
  /** Constructed values, by node. An alias and its anchor share one value. */
  readonly #made = new Map<Node, Value>();
  readonly #text: string;
  readonly #marks: TextMarks | undefined;

  constructor(aliases: Aliases, problems: Problems, text: string, marks?: TextMarks) {
    this.#aliases = aliases;
    this.#problems = problems;
    this.#text = text;
    this.#marks = marks;
  }

  construct(node: Node | null): Value {
    if (node === null) return null;
    if (isAlias(node)) return this.construct(this.#aliases.resolve(node));
    const known = this.#made.get(node);
    if (known !== undefined) return known;
    const value = this.#make(node);
    this.#made.set(node, value);
    return value;
  }

  #make(node: Node): Value {
    if (isScalar(node)) return this.#scalar(node);
    if (isSeq<Node>(node)) return this.#sequence(node);
    return isMap<Node, Node | null>(node) ? this.#mapping(node) : null;
  }

  #scalar(node: Scalar): Value {
    const tag = tagOf(node);
    const text = blockText(node, textOf(node), this.#text);
    const value = constructScalar(tag, node.type === 'PLAIN' ? this.#asPlain(text) : text);
    if (value !== undefined) return value;
    if (['int', 'float', 'bool', 'binary'].includes(tag)) {
      this.#problems.fail('ValueError', `the text is not a valid ${tag}`, offsetOf(node));
    }
    return this.#unknownTag(node, tag);
  }

  #asPlain(text: string): string {
    const marks = this.#marks;
    return marks === undefined ? text : text.replaceAll(marks.text, marks.plain);
  }

  #sequence(node: YAMLSeq<Node>): Value {
    const tag = tagOf(node);
    switch (tag) {
      case 'seq':
        return node.items.map((item) => this.construct(item));
      case 'omap':
        return this.#problems.fail(
          'ConstructorError',
          'expected a mapping node, but found sequence',
          offsetOf(node),
        );
      case 'pairs':
        return node.items.map((item) => this.#pair(item));
    }
    return this.#unknownTag(node, tag);
  }

  #pair(item: Node): Value {
    const node = isAlias(item) ? this.#aliases.resolve(item) : item;
    const [pair, ...more] = isMap<Node, Node | null>(node) ? node.items : [];
    if (pair === undefined || more.length > 0) {
      this.#problems.fail('ConstructorError', 'expected a single mapping item', offsetOf(item));
    }
    return new Tuple([this.construct(pair.key), this.construct(pair.value)]);
  }

  #mapping(node: YAMLMap<Node, Node | null>): Value {
    const tag = tagOf(node);
    if (!['map', 'omap', 'set'].includes(tag)) return this.#unknownTag(node, tag);
    const dict = new Dict();
    if (tag === 'set' && this.#marks !== undefined) {
      this.#problems.fail('ConstructorError', 'a set may not have late values', offsetOf(node));
    }
    for (const pair of this.#flatten(node)) this.#add(dict, pair);
    return tag === 'set' ? new PySet(dict.keys()) : dict;
  }

  #add(dict: Dict, { key, value }: Pair): void {
    const made = isValueTag(key) ? '=' : this.construct(key);
    if (!isHashable(made)) {
      this.#problems.fail('ConstructorError', 'found unacceptable key', offsetOf(key));
    }
    if (dict.has(made)) {
      this.#problems.fail('ConstructorError', `found conflicting ID '${str(made)}'`, offsetOf(key));
    }
    dict.set(made, this.construct(value));
  }

  /** Returns the pairs of a mapping, with merged pairs (`<<`) first. */
  #flatten(node: YAMLMap<Node, Node | null>): Pair[] {
    const own: Pair[] = [];
    const merged: Pair[] = [];
    for (const pair of node.items) {
      if (isScalar(pair.key) && tagOf(pair.key) === 'merge')
        merged.push(...this.#merged(pair.value, node));
      else own.push(pair);
    }
    const names = new Set(own.map(({ key }) => nameOf(key)));
    return [...merged.filter(({ key }) => !names.has(nameOf(key))), ...own];
  }

  #merged(value: Node | null, node: Node): Pair[] {
    const target = value !== null && isAlias(value) ? this.#aliases.resolve(value) : value;
    if (target !== null && isMap<Node, Node | null>(target)) return this.#flatten(target);
    if (target === null || !isSeq<Node>(target)) {
      this.#problems.fail(
        'ConstructorError',
        'expected a mapping or list of mappings for merging',
        offsetOf(target ?? node),
      );
    }
    return target.items.toReversed().flatMap((item) => this.#mergedMapping(item));
  }

  #mergedMapping(item: Node): Pair[] {
    const node = isAlias(item) ? this.#aliases.resolve(item) : item;
    if (isMap<Node, Node | null>(node)) return this.#flatten(node);
    return this.#problems.fail(
      'ConstructorError',
      'expected a mapping for merging',
      offsetOf(item),
    );
  }

  #unknownTag(node: Node, tag: string): never {
    const full = tag.includes(':') || tag.startsWith('!') ? tag : core + tag;
    return this.#problems.fail(
      'ConstructorError',
      `could not determine a constructor for the tag ${repr(full)}`,
      offsetOf(node),
    );
  }
}

function isValueTag(node: Node): boolean {
  return isScalar(node) && tagOf(node) === 'value';
}

/** Returns the explicit or implied tag of a node, without `tag:yaml.org,2002:`. */
function tagOf(node: Exclude<Node, Alias>): string {
  const { tag } = node;
  if (tag !== undefined && tag !== '!') return tag.startsWith(core) ? tag.slice(core.length) : tag;
  if (isSeq(node)) return 'seq';
  if (isMap(node)) return 'map';
  return isScalar(node) && node.type === 'PLAIN' ? resolveTag(textOf(node)) : 'str';
}

function textOf({ value, source }: Scalar): string {
  return typeof value === 'string' ? value : (source ?? '');
}

/**
 * Returns the text of a key before its type is resolved. When mappings are merged, keys with the
 * same text are equal.
 */
function nameOf(key: Node): unknown {
  return isScalar(key) ? textOf(key) : key;
}

/**
 * Parses YAML as Salt does: YAML 1.1 like PyYAML, with some differences. An integer with a leading
 * zero is decimal: `0755` becomes 755. Dates become text, and duplicate keys are errors. Mappings
 * become `Map`s, because keys may be of any type.
 * @throws TemplateError ERR_YAML with file and line; ERR_TEMPLATE_LIMIT for excessive aliases or
 * nesting
 */
export function parseYaml(text: string, options: YamlOptions): PlainData {
  // Aliases of one node share its value, so that parsed texts use little memory.
  return toPlain(loadYaml(text, options), undefined, undefined, new Map());
}
