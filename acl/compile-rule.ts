/** A rule made ready for being asked: nothing of it is compiled again at a request. */

import { Compile } from 'typebox/schema';
import { nearestName, TokenBuckets } from '#runtime';
import { PolicyError } from './errors.ts';
import { parseRate } from './rate.ts';
import {
  type ArgumentPattern,
  type CallPattern,
  type PolicyRule,
  parseRule,
  type RuleAction,
  ruleFormProblems,
  type SignalPattern,
  type SubjectPattern,
  type TextPattern,
  type TextPatterns,
} from './rule.ts';
import type { Call, EventResource, Subject } from './types.ts';

// Patterns of a rule, compiled once.

/** Where a pattern stands. */
export interface RuleField {
  readonly rule: string;
  readonly field: string;
}

/** Texts whose answer is remembered for an expression: names of functions are few. */
const maxRemembered = 512;
const maxRememberedLength = 256;

/** @throws PolicyError ERR_POLICY_PATTERN */
export function compileTexts(
  patterns: TextPatterns,
  syntax: Pick<PolicySyntax, 'glob' | 'regex'>,
  place: RuleField,
): TextTest {
  const list: readonly TextPattern[] = asList(patterns);
  if (list.includes('*')) return () => true;
  const [first, ...more] = list.map((pattern) => compileText(pattern, syntax, place));
  if (first === undefined) return () => false;
  return more.length === 0 ? first : (text) => first(text) || more.some((matches) => matches(text));
}

/** @throws PolicyError ERR_POLICY_PATTERN */
function compileText(
  pattern: TextPattern,
  syntax: Pick<PolicySyntax, 'glob' | 'regex'>,
  place: RuleField,
): TextTest {
  return orPatternError(place, () =>
    typeof pattern === 'string'
      ? compileGlob(pattern, syntax)
      : memoizeTest(syntax.regex(pattern.regex)),
  );
}

/**
 * A glob that first looks at the ends of a text: of a thousand that are tried, most are not it.
 * @throws SyntaxError
 */
function compileGlob(pattern: string, { glob }: Pick<PolicySyntax, 'glob'>): TextTest {
  const matches = glob(pattern);
  const begin = pattern.replace(/[*?[].*$/s, '');
  if (begin === pattern) return matches;
  const end = /[^*?[\]]*$/.exec(pattern)?.[0] ?? '';
  return (text) => text.startsWith(begin) && text.endsWith(end) && matches(text);
}

/** @throws PolicyError ERR_POLICY_PATTERN */
function compileArguments(
  conditions: readonly ArgumentPattern[] | undefined,
  syntax: PolicySyntax,
  place: RuleField,
): (call: Call) => boolean {
  if (conditions === undefined) return () => true;
  const tests = conditions.map((condition) => compileCondition(condition, syntax, place));
  return (call) => tests.some((meets) => meets(call));
}

function compileCondition(
  { args = [], kwargs = {} }: ArgumentPattern,
  syntax: PolicySyntax,
  place: RuleField,
): (call: Call) => boolean {
  const compile = (pattern: TextPattern | null): TextTest =>
    pattern === null ? () => true : compileText(pattern, syntax, place);
  const byPlace = args.map(compile);
  const byName = Object.entries(kwargs).map(([name, pattern]) => [name, compile(pattern)] as const);
  const isMet = (test: TextTest, text: string | undefined): boolean =>
    text !== undefined && test(text);
  return (call) =>
    byPlace.every((test, index) => isMet(test, call.args[index])) &&
    byName.every(([name, test]) => isMet(test, call.kwargs.get(name)));
}

/** What cannot be read is refused with its place. */
function orPatternError<T>(place: RuleField, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new PolicyError('ERR_POLICY_PATTERN', place, error.message, { cause: error });
  }
}

function asList(patterns: TextPatterns): readonly TextPattern[] {
  return Array.isArray(patterns) ? patterns : [patterns as TextPattern]; // isArray knows no readonly
}

/** Patterns as an operator wrote them, for one line of text. */
function describeTexts(patterns: TextPatterns): string {
  return asList(patterns)
    .map((pattern) => (typeof pattern === 'string' ? pattern : pattern.regex))
    .join(', ');
}

function memoizeTest(test: TextTest): TextTest {
  const known = new Map<string, boolean>();
  return (text) => {
    const answer = known.get(text);
    if (answer !== undefined) return answer;
    const fresh = test(text);
    if (text.length <= maxRememberedLength) {
      if (known.size >= maxRemembered) known.clear();
      known.set(text, fresh);
    }
    return fresh;
  };
}

/** A glob that means this text alone; in a tag, placeholders in it mean nothing either. */
export function literalGlob(text: string): string {
  return text.replace(/[*?[]|(?<=\$)\{/g, (character) => `[${character}]`);
}

// Index keys: literal pieces that every text which a pattern matches contains.

/** One pattern of a rule, as an index sees it. */
type RuleIndexKey =
  /** It means this text alone. */
  | { readonly kind: 'literal'; readonly text: string }
  /** Whatever it means has all of these in it; none of them is empty. */
  | { readonly kind: 'pieces'; readonly pieces: readonly string[] }
  | { readonly kind: 'any' };

/** What a glob or an expression is found by. */
function indexKeyOf(pattern: TextPattern): RuleIndexKey {
  if (typeof pattern !== 'string') return { kind: 'any' };
  return /[*?[]/.test(pattern) ? indexKeyOfGlobs([pattern]) : { kind: 'literal', text: pattern };
}

/** What globs are found by that stand in a text one behind the other. */
function indexKeyOfGlobs(globs: readonly string[]): RuleIndexKey {
  // A set, or a wildcard; what is no set after all is not looked for either.
  const pieces = globs.flatMap((glob) => glob.split(/\[!?\]?[^\]]*\]|[*?[]/));
  const some = pieces.filter((piece) => piece !== '');
  return some.length === 0 ? { kind: 'any' } : { kind: 'pieces', pieces: some };
}

// Tag patterns: globs in which `${minion.id}` and `${pillar:path}` stand for values of the sender.
// Inserted values are literal text, and nothing is compiled for them: wildcards stand only after the
// last placeholder.

/** A tag pattern that was read. */
interface TagPattern {
  readonly key: RuleIndexKey;
  readonly matches: (tag: string, subject: Subject) => boolean;
}

type Part = (id: string) => string | undefined;

const placeholder = /\$\{([^}]*)\}/g;
const wildcard = /[*?[]/;

/** @throws PolicyError ERR_POLICY_PATTERN */
function compileTagPattern(
  pattern: string,
  world: PolicyEnvironment,
  place: RuleField,
): TagPattern {
  const { parts, rest, literals } = split(pattern, world, place);
  const test = orPatternError(place, () => compileGlob(rest, world));
  if (parts.length === 0) return { key: indexKeyOf(pattern), matches: test };
  const isWhole = rest === '';
  return {
    key: indexKeyOfGlobs([...literals, rest]),
    matches: (tag, subject) => {
      const own = subject.kind === 'minion' ? expand(parts, subject.id) : undefined;
      if (own === undefined) return false;
      return isWhole ? tag === own : tag.startsWith(own) && test(tag.slice(own.length));
    },
  };
}

function expand(parts: readonly Part[], id: string): string | undefined {
  let text = '';
  for (const part of parts) {
    const value = part(id);
    if (value === undefined || value === '') return undefined;
    text += value;
  }
  return text;
}

function split(
  pattern: string,
  world: PolicyEnvironment,
  place: RuleField,
): {
  readonly parts: readonly Part[];
  readonly rest: string;
  /** What stands between the placeholders. */
  readonly literals: readonly string[];
} {
  const parts: Part[] = [];
  const literals: string[] = [];
  let end = 0;
  for (const found of pattern.matchAll(placeholder)) {
    const literal = pattern.slice(end, found.index);
    if (wildcard.test(literal)) {
      throw tagPatternError(place, 'wildcards stand only after the last placeholder');
    }
    literals.push(literal);
    if (literal !== '') parts.push(() => literal);
    parts.push(readPlaceholder(found[1] ?? '', world, place));
    end = found.index + found[0].length;
  }
  return { parts, rest: pattern.slice(end), literals };
}

function readPlaceholder(name: string, { pillarOf }: PolicyEnvironment, place: RuleField): Part {
  if (name === 'minion.id') return (id) => id;
  const path = name.startsWith('pillar:') ? name.slice('pillar:'.length) : '';
  if (path === '')
    throw tagPatternError(place, 'a placeholder is minion.id, or pillar: and a path');
  return (id) => pillarOf(id, path);
}

function tagPatternError(place: RuleField, problem: string): PolicyError {
  return new PolicyError('ERR_POLICY_PATTERN', place, problem);
}

// Syntax that the caller supplies, because this room imports nothing of ours.

/** Whether a text is one of those that a pattern means. */
export type TextTest = (text: string) => boolean;

/** Whether a target means a minion. */
export interface MinionTest {
  /** For certain, and not by its own word alone: for rules that permit. */
  readonly isEntitled: (id: string) => boolean;
  /** For certain, be it by its own word alone: for what makes a rule that permits narrower. */
  readonly claims: (id: string) => boolean;
  /** Or perhaps: for rules that forbid. */
  readonly mayMean: (id: string) => boolean;
}

/** How patterns are read. Each throws a SyntaxError with the reason. */
export interface PolicySyntax {
  readonly glob: (pattern: string) => TextTest;
  /** Of whole texts, by an engine that cannot explode. */
  readonly regex: (pattern: string) => TextTest;
  /** Of any part of a text, by an engine that cannot explode. */
  readonly search: (pattern: string) => TextTest;
  /** @param tgtType Salt's name of the target type */
  readonly target: (tgt: string, tgtType: string) => MinionTest;
}

/** What decisions look at besides the question. */
export interface PolicyEnvironment extends PolicySyntax {
  /** A text or number in the pillar of a minion, by its path (`a:b`); else `undefined`. */
  readonly pillarOf: (id: string, path: string) => string | undefined;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

// JSON Schema over what minions say with a signal: the operator's own schemas, each compiled once.
// A keyword that is misspelt would check nothing, so only known ones are taken; `pattern` is run by
// the engine that cannot explode, because the text comes from the minion [THREATS M-12].

/** Keywords of JSON Schema whose value is a schema, a list of schemas, or a map of them. */
export const schemaKeywords: Readonly<Record<'one' | 'list' | 'map', ReadonlySet<string>>> = {
  one: new Set([
    'items',
    'additionalProperties',
    'propertyNames',
    'contains',
    'not',
    'if',
    'then',
    'else',
  ]),
  list: new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']),
  map: new Set(['properties', '$defs', 'definitions']),
};

const jsonTypes: ReadonlySet<unknown> = new Set([
  'array',
  'boolean',
  'integer',
  'null',
  'number',
  'object',
  'string',
]);

const plainKeywords: Readonly<Record<string, (value: unknown) => boolean>> = {
  type: (value) => [value].flat().every((type) => jsonTypes.has(type)),
  enum: Array.isArray,
  const: () => true,
  required: isTexts,
  pattern: isText,
  $ref: (value) => isText(value) && value.startsWith('#'),
  minimum: isNumber,
  maximum: isNumber,
  exclusiveMinimum: isNumber,
  exclusiveMaximum: isNumber,
  multipleOf: (value) => isNumber(value) && value > 0,
  minLength: isCount,
  maxLength: isCount,
  minItems: isCount,
  maxItems: isCount,
  minContains: isCount,
  maxContains: isCount,
  minProperties: isCount,
  maxProperties: isCount,
  uniqueItems: isFlag,
  $schema: isText,
  title: isText,
  description: isText,
  default: () => true,
  examples: Array.isArray,
};

const maxDepth = 64;

/** Values of an `enum` that a refusal lists. */
const maxShownValues = 20;

/** What keeps data from fitting a schema. */
export interface SchemaProblem {
  /** Where, as keys with `/` between them; empty: the whole. */
  readonly path: string;
  /** What was expected; nothing of the data is in it. */
  readonly expected: string;
}

/**
 * A check of data by a JSON Schema. What JSON cannot say (bytes, numbers beyond 2^53) fits none.
 * @throws PolicyError ERR_POLICY_PATTERN
 */
export function compileDataSchema(
  schema: unknown,
  syntax: Pick<PolicySyntax, 'search'>,
  place: RuleField,
): (data: unknown) => boolean {
  const check = Compile(readSchema(schema, syntax, place, 0));
  return (data) => isJson(data, maxDepth) && check.Check(data);
}

/**
 * The same, that says what is wrong; `undefined`: nothing. An integer beyond 2^53 is compared with
 * bounds as the nearest float, as JSON Schema's own numbers are.
 * @param search - reads a regular expression that may match anywhere in a text
 * @throws PolicyError ERR_POLICY_PATTERN, with the keyword
 */
export function compileJsonSchema(
  schema: unknown,
  search: PolicySyntax['search'],
): (data: unknown) => SchemaProblem | undefined {
  const check = Compile(readSchema(schema, { search }, { rule: 'schema', field: '' }, 0));
  return (data) => {
    const plain = withoutBigints(data, maxDepth);
    if (!isJson(plain, maxDepth)) return { path: '', expected: 'must be what JSON can say' };
    if (check.Check(plain)) return undefined;
    const [, errors] = check.Errors(plain);
    // A misspelt name says more than that the right one is missing.
    const first = errors.find(({ keyword }) => keyword === 'boolean') ?? errors[0];
    if (first === undefined) return { path: '', expected: 'must fit the schema' };
    return { path: first.instancePath.slice(1), expected: describeRule(first) };
  };
}

/** The rule of the schema that the data break, in words. */
function describeRule({
  keyword,
  message,
  params,
}: {
  readonly keyword: string;
  readonly message: string;
  readonly params: object;
}): string {
  // What no schema describes is measured against the schema `false`.
  if (keyword === 'boolean') return 'is not known';
  if (keyword === 'enum' && 'allowedValues' in params && Array.isArray(params.allowedValues)) {
    const shown = params.allowedValues.slice(0, maxShownValues).map((it) => JSON.stringify(it));
    const more = params.allowedValues.length > shown.length ? ', …' : '';
    return `must be one of ${shown.join(', ')}${more}`;
  }
  if (keyword === 'const' && 'allowedValue' in params) {
    return `must be ${JSON.stringify(params.allowedValue)}`;
  }
  return message;
}

function readSchema(
  schema: unknown,
  syntax: Pick<PolicySyntax, 'search'>,
  { rule, field }: RuleField,
  depth: number,
): Record<string, unknown> | boolean {
  if (typeof schema === 'boolean') return schema;
  if (!isMap(schema) || depth > maxDepth)
    throw schemaError({ rule, field }, 'expected a JSON Schema');
  const read: Record<string, unknown> = {};
  for (const [keyword, value] of Object.entries(schema)) {
    const place = { rule, field: `${field}.${keyword}` };
    const inner = (one: unknown, name: string): unknown =>
      readSchema(one, syntax, { rule, field: `${place.field}${name}` }, depth + 1);
    if (schemaKeywords.one.has(keyword)) read[keyword] = inner(value, '');
    else if (schemaKeywords.list.has(keyword)) {
      read[keyword] = listOf(value, place).map((one, index) => inner(one, `.${index}`));
    } else if (schemaKeywords.map.has(keyword)) {
      const entries = Object.entries(mapOf(value, place));
      read[keyword] = Object.fromEntries(
        entries.map(([name, one]) => [name, inner(one, `.${name}`)]),
      );
    } else if (keyword === 'pattern' && isText(value)) {
      const test = orPatternError(place, () => syntax.search(toWholeEnd(value)));
      read['~refine'] = [textRefinement(value, test)];
    } else if (isPlainKeyword(keyword, value)) read[keyword] = value;
    else throw schemaError(place, describeKeyword(keyword));
  }
  return read;
}

function describeKeyword(keyword: string): string {
  if (keyword === 'pattern' || Object.hasOwn(plainKeywords, keyword)) {
    return 'its value is of another type than this keyword has';
  }
  const { one, list, map } = schemaKeywords;
  const known = [...one, ...list, ...map, ...Object.keys(plainKeywords), 'pattern'];
  const meant = nearestName(keyword, known);
  return `this keyword is not known${meant === undefined ? '' : `; did you mean ${meant}?`}`;
}

function isPlainKeyword(keyword: string, value: unknown): boolean {
  return Object.hasOwn(plainKeywords, keyword) && plainKeywords[keyword]?.(value) === true;
}

function textRefinement(
  pattern: string,
  test: TextTest,
): {
  readonly check: (value: unknown) => boolean;
  readonly error: () => string;
} {
  return {
    check: (value) => typeof value !== 'string' || test(value),
    error: () => `must match the pattern ${pattern}`,
  };
}

/** `$` means the very end in JSON Schema; in Python also the place before a last line break. */
function toWholeEnd(pattern: string): string {
  return pattern.replace(/\\.|\[(?:\\.|[^\]\\])*\]|\$/gs, (part) => (part === '$' ? '\\Z' : part));
}

function withoutBigints(value: unknown, depth: number): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (depth === 0 || typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => withoutBigints(item, depth - 1));
  if (!isMap(value)) return value;
  // Without a prototype: a schema takes what an object inherits for what is in it.
  const copy: Record<string, unknown> = Object.create(null);
  for (const [key, item] of Object.entries(value)) copy[key] = withoutBigints(item, depth - 1);
  return copy;
}

function isJson(value: unknown, depth: number): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (depth === 0 || typeof value !== 'object') return false;
  if (Array.isArray(value)) return value.every((item) => isJson(item, depth - 1));
  return isMap(value) && Object.values(value).every((item) => isJson(item, depth - 1));
}

function isMap(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  // That of a class inherits from Object.prototype, in its turn.
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every(isText);
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number';
}

function isCount(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 0;
}

function isFlag(value: unknown): boolean {
  return typeof value === 'boolean';
}

function listOf(value: unknown, place: RuleField): readonly unknown[] {
  if (Array.isArray(value) && value.length > 0) return value;
  throw schemaError(place, 'expected a list of schemas');
}

function mapOf(value: unknown, place: RuleField): Record<string, unknown> {
  if (isMap(value)) return value;
  throw schemaError(place, 'expected a map of schemas');
}

function schemaError(place: RuleField, problem: string): PolicyError {
  return new PolicyError('ERR_POLICY_PATTERN', place, problem);
}

// Functions that are as powerful as every right: only a rule that names them permits them.

/** By action. `state.orchestrate_single` runs whatever function its caller names, anywhere. */
const functionsByNameOnly: Readonly<Partial<Record<RuleAction, ReadonlySet<string>>>> = {
  runner: new Set(['state.orchestrate_single']),
};

/** Whether a rule that allows means a function only by a pattern, where it would have to name it. */
function mustBeNamed(action: RuleAction, fun: string, patterns: TextPatterns): boolean {
  return functionsByNameOnly[action]?.has(fun) === true && !asList(patterns).includes(fun);
}

/** The subject of a rule. */
interface CompiledSubject {
  readonly kind: Subject['kind'];
  /** Whether it is about every subject of its kind, but for facts. */
  readonly isEveryone: boolean;
  /** By names alone, which never change: may be remembered. */
  readonly covers: (subject: Subject) => boolean;
  /** By what is known of a minion now. */
  readonly holds: (subject: Subject) => boolean;
}

const always = (): boolean => true;

/** Selectors of minions by facts, with Salt's name of the target type. */
const factSelectors = [
  ['grain', 'grain'],
  ['pillar', 'pillar'],
  ['nodegroup', 'nodegroup'],
  ['target', 'compound'],
] as const;

/** @throws PolicyError */
function compileSubject(
  { name: rule, effect, subject }: Pick<PolicyRule, 'name' | 'effect' | 'subject'>,
  syntax: PolicySyntax,
): CompiledSubject {
  const kind = kindOfSubject(subject);
  if (kind === undefined) throw mixedSubjectError(rule);
  const excepted = compileOptional(subject.except, syntax, rule, 'except');
  const isExcepted = (name: string): boolean => excepted?.(name) === true;
  if (kind === 'minion') {
    refuseGrainsAlone(rule, effect, subject);
    const named = compileOptional(subject.minion, syntax, rule, 'minion');
    return {
      kind,
      isEveryone: excepted === undefined && (named === undefined || subject.minion === '*'),
      covers: (it) => it.kind === kind && named?.(it.id) !== false && !isExcepted(it.id),
      holds: compileFacts({ rule, effect, subject }, syntax),
    };
  }
  if (kind === 'user') return compileUser(subject, syntax, rule, isExcepted);
  if (kind === 'project') return compileProject({ rule, effect, subject }, syntax, isExcepted);
  const named = compileOptional(subject[kind], syntax, rule, kind);
  return {
    kind,
    isEveryone: excepted === undefined && subject[kind] === '*',
    covers: (it) => it.kind === kind && named?.(it.name) === true && !isExcepted(it.name),
    holds: always,
  };
}

/** The subject as an operator wrote it, for one line of text. */
function describeSubject(subject: SubjectPattern): string {
  const { grain, pillar, nodegroup, target, eauth, ...named } = subject;
  const texts = { grain, pillar, nodegroup, target, eauth };
  return [
    ...Object.entries(named).flatMap(([key, patterns]) =>
      patterns === undefined ? [] : `${key} ${describeTexts(patterns)}`,
    ),
    ...Object.entries(texts).flatMap(([key, text]) => (text === undefined ? [] : `${key} ${text}`)),
  ].join(', ');
}

function compileUser(
  { user, group, eauth, except }: SubjectPattern,
  syntax: PolicySyntax,
  rule: string,
  isExcepted: TextTest,
): CompiledSubject {
  const named = compileOptional(user, syntax, rule, 'user');
  const inGroup = compileOptional(group, syntax, rule, 'group');
  return {
    kind: 'user',
    isEveryone: user === '*' && [group, eauth, except].every((it) => it === undefined),
    covers: (it) =>
      it.kind === 'user' &&
      named?.(it.name) !== false &&
      (inGroup === undefined || it.groups.some(inGroup)) &&
      (eauth === undefined || it.eauth === eauth) &&
      !isExcepted(it.name),
    holds: always,
  };
}

/** What Keystone says of a project, a user or a domain. */
interface KeystoneName {
  readonly id: string;
  readonly name: string;
}

/** Whose projects are meant where a rule that allows does not say. */
// protection: namesakes
const usualDomain = 'Default';

function compileProject(
  { rule, effect, subject }: { rule: string } & Pick<PolicyRule, 'effect' | 'subject'>,
  syntax: PolicySyntax,
  isExcepted: TextTest,
): CompiledSubject {
  const { project, role, user, except, domain = effect === 'deny' ? '*' : usualDomain } = subject;
  const isProject = compileOptional(project, syntax, rule, 'project');
  const isRole = compileOptional(role, syntax, rule, 'role');
  const isUser = compileOptional(user, syntax, rule, 'user');
  const isDomain = compileTexts(domain, syntax, { rule, field: 'subject.domain' });
  const isNamed = effect === 'deny' ? matchesKeystoneName : matchesUnambiguously;
  return {
    kind: 'project',
    isEveryone:
      domain === '*' &&
      (project === undefined || project === '*') &&
      [role, user, except].every((it) => it === undefined),
    covers: (it) =>
      it.kind === 'project' &&
      isNamed(it.project.domain, isDomain) &&
      isNamed(it.project, isProject) &&
      (isRole === undefined || it.roles.some(isRole)) &&
      (isUser === undefined || (isNamed(it.user, isUser) && isNamed(it.user.domain, isDomain))) &&
      !matchesKeystoneName(it.project, isExcepted),
    holds: always,
  };
}

/** By id or by name. */
function matchesKeystoneName({ id, name }: KeystoneName, test: TextTest | undefined): boolean {
  return test === undefined || test(id) || test(name);
}

/** Ids of Keystone's: random ones, and digests for what is in LDAP. */
const idForm = /^(?:[0-9a-f]{32}|[0-9a-f]{64})$/i;

/** As {@link matchesKeystoneName}, but for a name that could be another one's id: names are chosen, ids are not. */
function matchesUnambiguously(entity: KeystoneName, test: TextTest | undefined): boolean {
  if (test === undefined || test(entity.id)) return true;
  // protection: names-like-ids
  if (idForm.test(entity.name)) return false;
  return test(entity.name);
}

function compileFacts(
  { rule, effect, subject }: { rule: string } & Pick<PolicyRule, 'effect' | 'subject'>,
  syntax: PolicySyntax,
): (subject: Subject) => boolean {
  const grain = compileTarget(subject.grain, 'grain', syntax, rule);
  const others = factSelectors
    .filter(([key]) => key !== 'grain')
    .flatMap(([key, type]) => compileTarget(subject[key], type, syntax, rule, key));
  if (grain.length + others.length === 0) return always;
  if (effect === 'deny') {
    return (it) =>
      it.kind === 'minion' && [...grain, ...others].every((test) => test.mayMean(it.id));
  }
  return (it) =>
    it.kind === 'minion' &&
    others.every((test) => test.isEntitled(it.id)) &&
    // Beside a selector that gives the right, so it only makes it narrower.
    grain.every((test) => test.claims(it.id));
}

function compileTarget(
  tgt: string | undefined,
  tgtType: string,
  syntax: PolicySyntax,
  rule: string,
  key: string = tgtType,
): MinionTest[] {
  if (tgt === undefined) return [];
  const place = { rule, field: `subject.${key}` };
  return [orPatternError(place, () => syntax.target(tgt, tgtType))];
}

function compileOptional(
  patterns: TextPatterns | undefined,
  syntax: PolicySyntax,
  rule: string,
  key: string,
): TextTest | undefined {
  if (patterns === undefined) return undefined;
  return compileTexts(patterns, syntax, { rule, field: `subject.${key}` });
}

/** What a rule is about; `undefined`: nothing, or several kinds at once. */
export function kindOfSubject(subject: SubjectPattern): Subject['kind'] | undefined {
  const { minion, grain, pillar, nodegroup, target, user, group, eauth, service, token } = subject;
  const ofProject = [subject.project, subject.role, subject.domain];
  // Beside a project, a user is one of Keystone's.
  const isOfProject = ofProject.some((key) => key !== undefined);
  const kinds: Readonly<Record<Subject['kind'], readonly unknown[]>> = {
    minion: [minion, grain, pillar, nodegroup, target],
    user: isOfProject ? [group, eauth] : [user, group, eauth],
    project: ofProject,
    service: [service],
    token: [token],
  };
  const named = Object.entries(kinds).filter(([, keys]) => keys.some((key) => key !== undefined));
  const [first, ...more] = named.map(([kind]) => kind as Subject['kind']); // keys of the literal
  return more.length === 0 ? first : undefined;
}

function mixedSubjectError(rule: string): PolicyError {
  const problem = 'expected either minions, or users, or a project, or a service, or a token';
  return new PolicyError('ERR_POLICY_FORM', { rule, field: 'subject' }, problem);
}

function refuseGrainsAlone(
  rule: string,
  effect: PolicyRule['effect'],
  { minion, grain, pillar, nodegroup, target }: SubjectPattern,
): void {
  const hasOthers = [minion, pillar, nodegroup, target].some((it) => it !== undefined);
  if (effect === 'deny' || grain === undefined || hasOthers) return;
  const problem = 'a minion can claim any grain; name minion, pillar or nodegroup as well';
  throw new PolicyError('ERR_POLICY_UNTRUSTED', { rule, field: 'subject.grain' }, problem);
}

/** One thing of what is asked: a job with several functions is asked about one by one. */
export interface Request {
  readonly subject: Subject;
  readonly action: RuleAction;
  /** Tag, function, path or operation. */
  readonly text: string;
  /** `undefined`: its arguments are not known yet. */
  readonly call?: Call;
  /** What it is for, or whose mine it is; `undefined`: not known. */
  readonly minions?: readonly string[];
  readonly event?: EventResource;
}

/** What a rule says of a request; each tells what is in the way, if anything is. */
interface CompiledResource {
  /** One for each of its patterns. */
  readonly keys: readonly RuleIndexKey[];
  readonly meansText: (text: string, subject: Subject) => boolean;
  /** But for the minions. */
  readonly obstacle: (request: Request) => string | undefined;
  /** The minions that it is limited to. Default: none is left out. */
  readonly among?: MinionLimit;
}

/** Which minions a rule is limited to. */
interface MinionLimit extends Pick<MinionTest, 'isEntitled' | 'mayMean'> {
  /** What is in the way where a minion is another one. */
  readonly obstacle: string;
}

/** A rule that can be asked. */
export interface CompiledRule {
  readonly rule: PolicyRule;
  /** Place in the policy; the first one that decides is named. */
  readonly order: number;
  readonly subject: CompiledSubject;
  readonly resource: CompiledResource;
  /** Milliseconds since 1970; `Infinity`: never. */
  readonly expiresAt: number;
  readonly meter: TokenBuckets | undefined;
  /** Whether targets may ask for the pillar of minions that it permits. */
  readonly showsPillar: boolean;
  /** Why it decides, in one sentence. */
  readonly reason: string;
}

const reservedRuleNames: ReadonlySet<string> = new Set(['default-deny', 'learning']);

/** @throws PolicyError */
export function compileRule(
  rule: PolicyRule,
  order: number,
  world: PolicyEnvironment,
): CompiledRule {
  refuseContradictions(rule);
  return {
    rule,
    order,
    subject: compileSubject(rule, world),
    resource: compileResource(rule, world),
    expiresAt: rule.expires === undefined ? Infinity : parseTime(rule.expires, rule.name),
    meter: rule.rate === undefined ? undefined : new TokenBuckets(parseRate(rule.rate, rule.name)),
    showsPillar: showsPillar(rule),
    reason: `${describeSubject(rule.subject)} ${verbs[rule.effect]} ${describeResource(rule)}`,
  };
}

/** @throws PolicyError */
function refuseContradictions(rule: PolicyRule): void {
  if (reservedRuleNames.has(rule.name)) {
    const problem = 'decisions without a rule have this name; choose another one';
    throw new PolicyError('ERR_POLICY_FORM', { rule: rule.name, field: '' }, problem);
  }
  if (rule.effect === 'deny' && rule.rate !== undefined) {
    const place = { rule: rule.name, field: 'rate' };
    throw new PolicyError('ERR_POLICY_FORM', place, 'a rule that denies has no rate');
  }
  if (rule.effect === 'deny' && showsPillar(rule)) {
    const place = { rule: rule.name, field: 'resource.facts' };
    throw new PolicyError('ERR_POLICY_FORM', place, 'a rule that denies shows no facts');
  }
}

/** Every mistake of a rule: in its form, and in the patterns of what has the right form. */
export function ruleProblems(
  name: string,
  value: unknown,
  world: PolicyEnvironment,
): readonly PolicyError[] {
  const ofForm = ruleFormProblems(name, value);
  if (ofForm.length === 0) return rulePatternProblems(parseRule(name, value), world);
  const isRight = (part: string): boolean => ofForm.every(({ path }) => path[0] !== part);
  const given = new Map(Object.entries(Object(value)).filter(([part]) => isRight(part)));
  const hasResource = given.has('action') && given.has('resource');
  const { subject = { minion: '*' }, effect, rate, expires } = Object.fromEntries(given);
  const harmless = { action: 'mine', resource: { fun: '*' } };
  const rest = {
    subject,
    ...(hasResource ? { action: given.get('action'), resource: given.get('resource') } : harmless),
    ...(effect === undefined ? {} : { effect }),
    ...(rate === undefined ? {} : { rate }),
    ...(expires === undefined ? {} : { expires }),
  };
  return [...ofForm, ...rulePatternProblems(parseRule(name, rest), world)];
}

/** What is wrong with the patterns of a rule, of each part the first. */
export function rulePatternProblems(
  rule: PolicyRule,
  world: PolicyEnvironment,
): readonly PolicyError[] {
  const { name, rate, expires } = rule;
  const problems = [
    ...problemOf(() => compileSubject(rule, world)),
    ...problemOf(() => compileResource(rule, world)),
    ...(rate === undefined ? [] : problemOf(() => parseRate(rate, name))),
    ...(expires === undefined ? [] : problemOf(() => parseTime(expires, name))),
  ];
  return problems.length > 0 ? problems : problemOf(() => refuseContradictions(rule));
}

function problemOf(look: () => unknown): readonly PolicyError[] {
  try {
    look();
    return [];
  } catch (error) {
    if (error instanceof PolicyError) return [error];
    throw error;
  }
}

/** Whether targets may ask for the pillar of the minions that a rule permits. */
export function showsPillar({ resource }: PolicyRule): boolean {
  return 'facts' in resource && resource.facts === 'pillar';
}

const verbs: Readonly<Record<PolicyRule['effect'], string>> = { allow: 'has', deny: 'has not' };

function describeResource(rule: PolicyRule): string {
  return `${rule.action} ${describeTexts(textsOf(rule))}`;
}

/** The texts that a rule is about: tags, functions, paths, operations. */
export function textsOf(rule: PolicyRule): TextPatterns {
  switch (rule.action) {
    case 'signal':
    case 'subscribe':
      return rule.resource.tag;
    case 'file-send':
      return rule.resource.path;
    case 'pillar':
      return rule.resource.environment;
    case 'key':
      return rule.resource.operation;
    default:
      return rule.resource.fun;
  }
}

function compileResource(rule: PolicyRule, world: PolicyEnvironment): CompiledResource {
  const place = (field: string): RuleField => ({ rule: rule.name, field: `resource.${field}` });
  switch (rule.action) {
    case 'signal':
      return compileSignal(rule.resource, rule.effect, world, place);
    case 'publish':
      return compilePublish(rule, world, place);
    case 'runner':
    case 'wheel':
      return byName(rule, compileCall(rule.resource, rule.effect, world, place));
    case 'command':
      return compileWithin(rule, world, place);
    case 'mine': {
      const { fun, owner = '*' } = rule.resource;
      const compiled = byText(fun, world, place('fun'));
      if (owner === '*') return compiled;
      const isOwner = compileTexts(owner, world, place('owner'));
      const obstacle = 'the owner is another one';
      return { ...compiled, among: { isEntitled: isOwner, mayMean: isOwner, obstacle } };
    }
    case 'file-send':
      return byText(rule.resource.path, world, place('path'));
    case 'pillar':
      return byText(rule.resource.environment, world, place('environment'));
    case 'key':
      return byText(rule.resource.operation, world, place('operation'));
    case 'subscribe':
      return byText(rule.resource.tag, world, place('tag'));
  }
}

function compileSignal(
  { tag, schema, bytes = Infinity }: SignalPattern,
  effect: PolicyRule['effect'],
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  // A glob of wildcards alone would permit every tag; then one might as well not ask.
  if (effect === 'allow' && !isSpecificTagGlob(tag)) {
    throw new PolicyError('ERR_POLICY_PATTERN', place('tag'), 'expected a letter or a digit in it');
  }
  const pattern = compileTagPattern(tag, world, place('tag'));
  const fits = schema === undefined ? undefined : compileDataSchema(schema, world, place('schema'));
  return {
    keys: [pattern.key],
    meansText: pattern.matches,
    obstacle: ({ event }) => {
      if (bytes < (event?.bytes?.() ?? 0)) return `it is larger than ${bytes} bytes`;
      return fits?.(event?.data) === false ? 'its data do not fit the schema' : undefined;
    },
  };
}

/** Whether a glob on tags names something of its own. */
export function isSpecificTagGlob(glob: string): boolean {
  return /[\p{L}\p{N}]/u.test(glob.replace(/\[[^\]]*\]/g, ''));
}

function compilePublish(
  rule: PolicyRule & { readonly action: 'publish' },
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  const compiled = compileWithin(rule, world, place);
  const { environment = '*' } = rule.resource;
  const inEnvironment = compileTexts(environment, world, place('environment'));
  return {
    ...compiled,
    obstacle: (request) => {
      const given = request.call?.kwargs.get('saltenv');
      if (given !== undefined && !inEnvironment(given)) return 'the environment is another one';
      return compiled.obstacle(request);
    },
  };
}

function compileWithin(
  { effect, resource }: PolicyRule & { readonly action: 'publish' | 'command' },
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  const { within, ...call } = resource;
  const compiled = compileCall(call, effect, world, place);
  if (within === undefined) return compiled;
  const obstacle = `not all of the target is within ${within}`;
  const test =
    effect === 'deny'
      ? orPatternError(place('within'), () => world.target(within, 'compound'))
      : (orUndefined(() => world.target(within, 'compound')) ?? noMinions);
  // protection: within
  return { ...compiled, among: { ...test, obstacle } };
}

const noMinions = { isEntitled: (): boolean => false, mayMean: (): boolean => false };

/** A target of Salt's options that cannot be read permits nothing, and takes nothing else away. */
function orUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function compileCall(
  { fun, arguments: conditions }: CallPattern,
  effect: PolicyRule['effect'],
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  const meets = compileArguments(conditions, world, place('arguments'));
  const isMetUnknown = effect === 'allow' || conditions === undefined;
  return {
    ...byText(fun, world, place('fun')),
    obstacle: ({ call }) => {
      const isMet = call === undefined ? isMetUnknown : meets(call);
      return isMet ? undefined : 'the arguments are not those that it asks for';
    },
  };
}

/** Some functions are permitted only where they are named. */
function byName(
  { effect, action, resource: { fun } }: PolicyRule & { readonly action: 'runner' | 'wheel' },
  compiled: CompiledResource,
): CompiledResource {
  if (effect === 'deny') return compiled;
  return {
    ...compiled,
    obstacle: (request) => {
      // protection: functions-by-pattern
      if (mustBeNamed(action, request.text, fun)) return `it does not name ${request.text} itself`;
      return compiled.obstacle(request);
    },
  };
}

function byText(
  patterns: TextPatterns,
  world: PolicyEnvironment,
  place: RuleField,
): CompiledResource {
  return {
    keys: asList(patterns).map(indexKeyOf),
    meansText: compileTexts(patterns, world, place),
    obstacle: () => undefined,
  };
}

function parseTime(text: string, rule: string): number {
  const isIso = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text);
  const time = isIso ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  const problem = 'expected a date, or a time with its zone: 2027-01-31, 2027-01-31T12:00:00Z';
  throw new PolicyError('ERR_POLICY_PATTERN', { rule, field: 'expires' }, problem);
}
