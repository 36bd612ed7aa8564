/**
 * Salt's rights of users as rules: `publisher_acl`, `publisher_acl_blacklist` and what
 * `external_auth` grants. What cannot be read permits nothing and is told; expressions mean whole
 * names, where Salt looks at beginnings [salt/acl, salt/auth, salt/utils/minions.py auth_check,
 * spec_check].
 */

import type { PolicySyntax } from './policy-syntax.ts';
import {
  allow,
  type CallPattern,
  deny,
  type PolicyRule,
  type SubjectPattern,
  type TextPattern,
  type TextPatterns,
} from './rule.ts';
import { compileTexts } from './rule-patterns.ts';
import type { RuleOrigin, UserSubject } from './types.ts';

// Grants of `peer`, `peer_run` and `mine_get`: for minions whose id an expression matches, a list of
// functions, perhaps with conditions on their arguments and, for publishing, on the minions
// [salt/utils/minions.py auth_check, __fun_check, __args_check].

/** A regular expression of the operator's. It means a text only as a whole. */
interface GrantPattern {
  /** As it was written. */
  readonly source: string;
  readonly matches: (text: string) => boolean;
}

/** What the arguments of a call must be like; what is not named may be anything. */
interface ArgumentCondition {
  /** By place; `null`: there must be one. */
  readonly args: readonly (GrantPattern | null)[];
  /** By name; `null`: there must be one. */
  readonly kwargs: ReadonlyMap<string, GrantPattern | null>;
}

/** Functions that are permitted. */
interface FunctionGrant {
  readonly fun: GrantPattern;
  /** Any one of them; empty: with any arguments. */
  readonly conditions: readonly ArgumentCondition[];
  /** A compound target: only on minions that it means. `undefined`: on any. */
  readonly within: string | undefined;
}

/** What minions are permitted. */
export interface Grant {
  readonly minion: GrantPattern;
  readonly functions: readonly FunctionGrant[];
}

/** How {@link parseGrants} reads. */
export interface GrantSyntax {
  /** Compiles an expression that means whole texts. @throws SyntaxError */
  readonly compile: (pattern: string) => (text: string) => boolean;
  /** What the key of a map in a list of functions is: a function, or a target with functions. */
  readonly mapKey: 'function' | 'target';
}

/**
 * Reads the value of such an option.
 * @throws SyntaxError with the reason
 */
export function parseGrants(value: unknown, syntax: GrantSyntax): Grant[] {
  return entriesOf(value, 'the option').map(([minion, functions]) => ({
    minion: toPattern(minion, syntax),
    functions: asGrantList(functions).flatMap((entry) => parseEntry(entry, syntax)),
  }));
}

/**
 * Functions with their conditions, in a list or alone.
 * @throws SyntaxError with the reason
 */
function parseFunctionGrants(value: unknown, syntax: GrantSyntax): FunctionGrant[] {
  return asGrantList(value).flatMap((entry) => parseFunction(entry, undefined, syntax));
}

function parseEntry(entry: unknown, syntax: GrantSyntax): FunctionGrant[] {
  if (typeof entry === 'string' || syntax.mapKey === 'function') {
    return parseFunction(entry, undefined, syntax);
  }
  const [target, functions] = onlyEntry(entry, 'a map in the list');
  return asGrantList(functions).flatMap((one) => parseFunction(one, target, syntax));
}

function parseFunction(
  entry: unknown,
  within: string | undefined,
  syntax: GrantSyntax,
): FunctionGrant[] {
  if (typeof entry === 'string') {
    return [{ fun: toPattern(entry, syntax), conditions: [], within }];
  }
  const [fun, conditions] = onlyEntry(entry, 'a function with conditions');
  const parsed = asGrantList(conditions).map((condition) => parseCondition(condition, syntax));
  // Without one, the entry would permit what it was written to restrict.
  if (parsed.length === 0) throw new SyntaxError('a function with conditions has none');
  return [{ fun: toPattern(fun, syntax), conditions: parsed, within }];
}

function parseCondition(value: unknown, syntax: GrantSyntax): ArgumentCondition {
  const condition = new Map(entriesOf(value, 'a condition'));
  const args = condition.get('args') ?? [];
  const kwargs = condition.get('kwargs') ?? {};
  for (const name of condition.keys()) {
    if (name !== 'args' && name !== 'kwargs') {
      throw new SyntaxError('a condition has other keys than args and kwargs');
    }
  }
  return {
    args: asGrantList(args).map((pattern) => toArgumentPattern(pattern, syntax)),
    kwargs: new Map(
      entriesOf(kwargs, 'kwargs').map(([name, pattern]) => [
        name,
        toArgumentPattern(pattern, syntax),
      ]),
    ),
  };
}

function toArgumentPattern(value: unknown, syntax: GrantSyntax): GrantPattern | null {
  if (value === null) return null;
  if (typeof value === 'string' || typeof value === 'number') {
    return toPattern(String(value), syntax);
  }
  throw new SyntaxError('the condition on an argument is an expression, or nothing');
}

function toPattern(source: string, { compile }: GrantSyntax): GrantPattern {
  return { source, matches: compile(source) };
}

function asGrantList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}

function onlyEntry(value: unknown, what: string): [string, unknown] {
  const [entry, ...more] = entriesOf(value, what);
  if (entry === undefined || more.length > 0) throw new SyntaxError(`${what} has one key`);
  return entry;
}

function entriesOf(value: unknown, what: string): [string, unknown][] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return Object.entries(value);
  }
  throw new SyntaxError(`${what} is a map`);
}

// Conversion of grants to rules.

/** Rules of one option. Each keeps the option's name, and its expressions as they were written. */
export function grantRules(
  option: string,
  action: 'publish' | 'runner' | 'mine',
  grants: readonly Grant[],
  origin?: RuleOrigin,
): PolicyRule[] {
  const place = origin === undefined ? {} : { origin };
  return grants.flatMap(({ minion, functions }) => {
    const subject = { minion: toText(minion) };
    return functions.flatMap((entry): PolicyRule[] => {
      if (action === 'mine') {
        // Nothing has arguments there, so a condition on them is never met.
        if (entry.conditions.some((it) => it.args.length + it.kwargs.size > 0)) return [];
        const resource = { fun: toFunction(entry.fun) };
        return [allow(option, { subject, action, resource, ...place })];
      }
      const within = entry.within === undefined ? {} : { within: entry.within };
      const call = toCallPattern(entry);
      return [
        action === 'publish'
          ? allow(option, { subject, action, resource: { ...call, ...within }, ...place })
          : allow(option, { subject, action, resource: call, ...place }),
      ];
    });
  });
}

/** A function with its conditions. */
function toCallPattern({ fun, conditions }: FunctionGrant): CallPattern {
  if (conditions.length === 0) return { fun: toFunction(fun) };
  return {
    fun: toFunction(fun),
    arguments: conditions.map(({ args, kwargs }) => ({
      args: args.map(toCondition),
      kwargs: Object.fromEntries([...kwargs].map(([name, it]) => [name, toCondition(it)])),
    })),
  };
}

function toCondition(pattern: GrantPattern | null): TextPattern | null {
  return pattern === null ? null : toText(pattern);
}

/** A plain word means itself: it is looked up, and not tried. */
function toText({ source }: GrantPattern): TextPattern {
  return /^\w+$/.test(source) ? source : { regex: source };
}

/** So does the name of a function: its dot may be any character, but no other name has one there. */
function toFunction(pattern: GrantPattern): TextPattern {
  // protection: dots-are-any
  return /^\w+\.\w+$/.test(pattern.source) ? pattern.source : toText(pattern);
}

/** The options, as plain data. */
export interface UserRightOptions {
  readonly publisherAcl: Readonly<Record<string, unknown>>;
  readonly publisherAclBlacklist: Readonly<Record<string, unknown>>;
  readonly externalAuth: Readonly<Record<string, unknown>>;
  /** `permissive_acl`: what is granted to `*` is for those with grants of their own too. */
  readonly permissiveAcl: boolean;
}

/** Something that an operator should know of their options. */
interface RightsWarning {
  /** Keys from the option on: `external_auth`, `pam`, `fred`. */
  readonly path: readonly string[];
  readonly text: string;
}

/** What the options say. */
export interface UserRights {
  readonly rules: readonly PolicyRule[];
  readonly warnings: readonly RightsWarning[];
}

/** Reads the options; it never throws. */
export function readUserRights(
  options: UserRightOptions,
  compile: GrantSyntax['compile'],
): UserRights {
  const reader = new RightsReader(compile);
  for (const [user, list] of Object.entries(options.publisherAcl)) {
    reader.readList(['publisher_acl', user], { user: reader.namesOf(user) }, list);
  }
  reader.readBlacklist(options.publisherAclBlacklist);
  for (const [eauth, users] of Object.entries(options.externalAuth)) {
    reader.readEauth(eauth, users, options.permissiveAcl);
  }
  return reader;
}

class RightsReader implements UserRights {
  readonly rules: PolicyRule[] = [];
  readonly warnings: RightsWarning[] = [];
  readonly #syntax: GrantSyntax;

  constructor(compile: GrantSyntax['compile']) {
    this.#syntax = { compile, mapKey: 'function' };
  }

  namesOf(pattern: string): TextPatterns {
    return accountPatterns(pattern, this.#syntax.compile);
  }

  /** The same where it takes away: what cannot be read takes away from everybody. */
  #exclusionOf(path: readonly string[], pattern: string): TextPatterns {
    if (isExpression(pattern, this.#syntax.compile) || !/[()^$|+\\{}]/.test(pattern))
      return this.namesOf(pattern);
    this.#warn(path, `${pattern} cannot be read (lookaround is not taken); it stands for all`);
    return '*';
  }

  readEauth(eauth: string, users: unknown, isPermissive: boolean): void {
    const place = ['external_auth', eauth];
    if (!isMap(users)) {
      this.#warn(place, 'expected a map of users; it permits nothing');
      return;
    }
    const names = Object.keys(users).filter(
      (name) => name !== '*' && !isGroup(name) && !name.startsWith('^'),
    );
    for (const [name, list] of Object.entries(users)) {
      const path = [...place, name];
      // How users are authenticated, not who.
      if (name.startsWith('^')) continue;
      if (isGroup(name)) {
        this.readList(path, { group: this.namesOf(name.replace(/%+$/, '')), eauth }, list);
      } else if (name === '*' && !isPermissive && names.length > 0) {
        // Only for users that are not named themselves.
        const except = names.flatMap((other) => this.#exclusionOf(path, other));
        this.readList(path, { user: '*', eauth, except }, list);
      } else this.readList(path, { user: this.namesOf(name), eauth }, list);
    }
  }

  readBlacklist(blacklist: Readonly<Record<string, unknown>>): void {
    const option = 'publisher_acl_blacklist';
    for (const [kind, list] of Object.entries(blacklist)) {
      const path = [option, kind];
      const texts = listOf(list).filter((text) => typeof text === 'string');
      if ((kind !== 'users' && kind !== 'modules') || texts.length < listOf(list).length) {
        this.#warn(
          path,
          'expected lists of names under users and modules; the rest forbids nothing',
        );
      }
      for (const text of kind === 'users' || kind === 'modules' ? texts : []) {
        const [user, fun] =
          kind === 'users'
            ? [this.#exclusionOf(path, text), '*']
            : ['*', this.#exclusionOf(path, text)];
        const rule = { subject: { user }, action: 'publish', resource: { fun } } as const;
        this.rules.push(deny(`${option}: ${text}`, rule));
      }
    }
  }

  readList(path: readonly string[], subject: SubjectPattern, list: unknown): void {
    for (const entry of listOf(list)) {
      try {
        this.#readEntry(path, subject, entry);
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        this.#warn(path, `${error.message}; that entry permits nothing`);
      }
    }
  }

  #readEntry(path: readonly string[], subject: SubjectPattern, entry: unknown): void {
    if (typeof entry === 'string') {
      if (entry.startsWith('@')) this.#permitSpecial(path, subject, entry, undefined);
      else this.#permitPublishing(path, subject, this.#functions(entry), undefined);
      return;
    }
    const [only, ...more] = isMap(entry) ? Object.entries(entry) : [];
    if (only === undefined || more.length > 0) {
      throw new SyntaxError('an entry is a function, or a map with one key');
    }
    const [key, functions] = only;
    if (key.startsWith('@')) {
      this.#permitSpecial(path, subject, key, this.#functions(functions));
    } else this.#permitPublishing(path, subject, this.#functions(functions), key);
  }

  #permitPublishing(
    path: readonly string[],
    subject: SubjectPattern,
    functions: readonly FunctionGrant[],
    within: string | undefined,
  ): void {
    const place = within === undefined ? {} : { within };
    for (const grant of functions) {
      const resource = { ...toCallPattern(grant), ...place };
      this.rules.push(allow(path.join(': '), { subject, action: 'publish', resource }));
    }
  }

  /** `@runner`, `@wheel`, and `@module` for both [salt/utils/minions.py spec_check]. */
  #permitSpecial(
    path: readonly string[],
    subject: SubjectPattern,
    key: string,
    functions: readonly FunctionGrant[] | undefined,
  ): void {
    const form = /^@(runner|wheel)s?$/.exec(key)?.[1];
    const module = /^@(\w+)$/.exec(key)?.[1];
    if (module === undefined) throw new SyntaxError(`${key} is no name of a module`);
    if (form !== undefined && functions === undefined) {
      this.#warn(path, `${key} without a list permits every ${form} function; name those meant`);
    }
    for (const action of ['runner', 'wheel'] as const) {
      // protection: runners-by-functions
      if (form !== undefined && form !== action) continue;
      const prefix = form === undefined ? `${module}.` : '';
      const calls = functions?.map((grant) => {
        const call = toCallPattern(grant);
        return { ...call, fun: prefixedPatterns(prefix, grant.fun.source, call.fun) };
      }) ?? [{ fun: `${prefix}*` }];
      for (const resource of calls) {
        this.rules.push(allow(path.join(': '), { subject, action, resource }));
      }
    }
  }

  #functions(value: unknown): readonly FunctionGrant[] {
    return parseFunctionGrants(value, this.#syntax);
  }

  #warn(path: readonly string[], text: string): void {
    this.warnings.push({ path, text });
  }
}

/** As Salt compares names: as a glob, and as an expression where it can be read as one. */
function accountPatterns(pattern: string, compile: GrantSyntax['compile']): TextPatterns {
  if (/^[\w.@-]+$/.test(pattern) || !isExpression(pattern, compile)) return pattern;
  return [pattern, { regex: pattern }];
}

function isExpression(pattern: string, compile: GrantSyntax['compile']): boolean {
  try {
    compile(pattern);
    return true;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

function prefixedPatterns(prefix: string, source: string, fun: TextPatterns): TextPatterns {
  if (prefix === '') return fun;
  const pattern: TextPattern = /^\w+$/.test(source)
    ? prefix + source
    : { regex: `${prefix.replace('.', '\\.')}(?:${source})` };
  return pattern;
}

function isGroup(name: string): boolean {
  return name.endsWith('%');
}

function listOf(value: unknown): readonly unknown[] {
  if (value === null || value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// Entries of `external_auth` that apply to a user [salt/utils/minions.py fill_auth_list].

/** `external_auth`, and `permissive_acl`. */
export interface GrantedRights {
  readonly externalAuth: Readonly<Record<string, unknown>>;
  readonly permissiveAcl: boolean;
}

/**
 * The entries that the rules of {@link readUserRights} come from, for one user: no doubles, texts
 * first and sorted, then maps.
 */
export function rightsOfUser(
  { externalAuth, permissiveAcl }: GrantedRights,
  { name, groups, eauth }: UserSubject,
  syntax: Pick<PolicySyntax, 'glob' | 'regex'>,
): readonly unknown[] {
  const users =
    eauth !== undefined && Object.hasOwn(externalAuth, eauth) ? externalAuth[eauth] : {};
  const entries = Object.entries(users ?? {}).filter(([key]) => !key.startsWith('^'));
  const place = { rule: 'external_auth', field: 'user' };
  const means = (pattern: string, text: string): boolean =>
    compileTexts(accountPatterns(pattern, syntax.regex), syntax, place)(text);
  const named = entries.filter(([key]) => key !== '*' && !key.endsWith('%') && means(key, name));
  const ofGroups = entries.filter(
    ([key]) => key.endsWith('%') && groups.some((group) => means(key.replace(/%+$/, ''), group)),
  );
  const fallback =
    permissiveAcl || named.length === 0 ? entries.filter(([key]) => key === '*') : [];
  const granted = [...named, ...ofGroups, ...fallback].flatMap(([, list]) => listOf(list));
  const texts = granted.filter((entry) => typeof entry === 'string');
  const unique = new Map(granted.map((entry) => [JSON.stringify(entry), entry]));
  const maps = [...unique.values()].filter((entry) => typeof entry !== 'string');
  return [...[...new Set(texts)].sort(), ...maps];
}
