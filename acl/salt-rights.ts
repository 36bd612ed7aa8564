/**
 * Converts Salt's user rights to rules: `publisher_acl`, `publisher_acl_blacklist` and
 * `external_auth`. Invalid entries grant nothing and cause a warning. Expressions match whole
 * names, whereas Salt matches prefixes [salt/acl, salt/auth, salt/utils/minions.py auth_check,
 * spec_check].
 */

import { isMap, trimEnd } from '#runtime';
import { toCallPattern } from './grant-rules.ts';
import {
  allow,
  deny,
  type PolicyRule,
  type SubjectPattern,
  type TextPattern,
  type TextPatterns,
} from './rule.ts';
import { type FunctionGrant, type GrantSyntax, parseFunctionGrants } from './salt-grants.ts';

/** Options with user rights, as plain data. */
export interface UserRightOptions {
  readonly publisherAcl: Readonly<Record<string, unknown>>;
  readonly publisherAclBlacklist: Readonly<Record<string, unknown>>;
  readonly externalAuth: Readonly<Record<string, unknown>>;
  /** Whether grants to `*` also apply to users with grants of their own (`permissive_acl`). */
  readonly permissiveAcl: boolean;
}

/** Warning about an option, for the operator. */
interface RightsWarning {
  /** Keys from the option downwards, for example `external_auth`, `pam`, `fred`. */
  readonly path: readonly string[];
  readonly text: string;
}

/**
 * Rules that follow from Salt's options for user rights, such as `external_auth`, and warnings
 * about invalid entries.
 */
export interface UserRights {
  readonly rules: readonly PolicyRule[];
  readonly warnings: readonly RightsWarning[];
}

/**
 * Converts Salt's options for user rights, such as `external_auth`, to rules. Never throws; reports
 * invalid entries as warnings.
 */
export function readUserRights(
  options: UserRightOptions,
  compile: GrantSyntax['compile'],
): UserRights {
  const reader = new RightsReader(compile);
  for (const [user, list] of Object.entries(options.publisherAcl)) {
    // A user of a backend who has the name of an account of this host is another user.
    const account = { user: reader.namesOf(user), eauth: '' };
    reader.readList(['publisher_acl', user], account, list);
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

  /**
   * Returns patterns for the users or functions that an option excludes, for example in
   * `publisher_acl_blacklist`. An invalid pattern excludes everything.
   */
  #exclusionOf(path: readonly string[], pattern: string): TextPatterns {
    if (isExpression(pattern, this.#syntax.compile) || !/[()^$|+\\{}]/.test(pattern))
      return this.namesOf(pattern);
    this.#warn(
      path,
      `${pattern} cannot be parsed (lookaround is not supported) and is treated as a pattern that matches everyone`,
    );
    return '*';
  }

  readEauth(eauth: string, users: unknown, isPermissive: boolean): void {
    const place = ['external_auth', eauth];
    if (!isMap(users)) {
      this.#warn(place, 'must be a map of users; the entry is ignored and grants nothing');
      return;
    }
    const names = Object.keys(users).filter(
      (name) => name !== '*' && !isGroup(name) && !name.startsWith('^'),
    );
    for (const [name, list] of Object.entries(users)) {
      const path = [...place, name];
      // A key that begins with `^` configures how users are authenticated. It is not a user.
      if (name.startsWith('^')) continue;
      if (isGroup(name)) {
        this.readList(path, { group: this.namesOf(trimEnd(name, '%')), eauth }, list);
      } else if (name === '*' && !isPermissive && names.length > 0) {
        // If `permissive_acl` is off, the entry `*` applies only to users without an entry of their
        // own.
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
          'only the keys `users` and `modules` are allowed, each with a list of names; other entries are ignored',
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
        this.#warn(path, `${error.message}; the entry is ignored and grants nothing`);
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
      throw new SyntaxError(
        'an entry of a list of permissions must be the name of a function, or a map with one key',
      );
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

  /**
   * Adds the rules for `@runner` or `@wheel`. Any other `@module` permits the runner module and the
   * wheel module of this name [salt/utils/minions.py spec_check].
   */
  #permitSpecial(
    path: readonly string[],
    subject: SubjectPattern,
    key: string,
    functions: readonly FunctionGrant[] | undefined,
  ): void {
    const form = /^@(runner|wheel)s?$/.exec(key)?.[1];
    const module = /^@(\w+)$/.exec(key)?.[1];
    if (module === undefined)
      throw new SyntaxError(
        `invalid key ${key}: use @ and the name of a module, for example @jobs`,
      );
    if (form !== undefined && functions === undefined) {
      this.#warn(
        path,
        `${key} without a list grants every ${form} function; list the intended functions`,
      );
    }
    for (const action of ['runner', 'wheel'] as const) {
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

/**
 * Returns patterns that match names as Salt does. The pattern is a glob. If it is also a valid
 * regular expression, names that match the expression match too.
 */
export function accountPatterns(pattern: string, compile: GrantSyntax['compile']): TextPatterns {
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

export function listOf(value: unknown): readonly unknown[] {
  if (value === null || value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}
