/** A rule made ready for being asked: nothing of it is compiled again at a request. */
import { compileDataSchema } from './data-schema.ts';
import { PolicyError } from './errors.ts';
import { lacksName } from './named-functions.ts';
import { asList, compileArguments, compileTexts, describeTexts, type Place } from './patterns.ts';
import { parseRate, RateMeter } from './rate.ts';
import type {
  CallPattern,
  CommandPattern,
  PolicyRule,
  PublishPattern,
  RuleAction,
  SignalPattern,
  TextPatterns,
} from './rule.ts';
import { keyOf, type RuleKey } from './rule-key.ts';
import { type CompiledSubject, compileSubject, describeSubject } from './subject.ts';
import type { PolicyWorld } from './syntax.ts';
import { compileTagPattern } from './tag-pattern.ts';
import type { Call, EventResource, MineResource, Subject } from './types.ts';

/** One thing of what is asked: a job with several functions is asked about one by one. */
export interface Request {
  readonly subject: Subject;
  readonly action: RuleAction;
  /** Tag, function, path or operation. */
  readonly text: string;
  readonly call?: Call;
  readonly isWithin?: (target: string) => boolean;
  readonly environment?: string;
  readonly event?: EventResource;
  readonly mine?: MineResource;
}

/** What a rule says of a request; each tells what is in the way, if anything is. */
interface CompiledResource {
  /** One for each of its patterns. */
  readonly keys: readonly RuleKey[];
  readonly meansText: (text: string, subject: Subject) => boolean;
  readonly obstacle: (request: Request) => string | undefined;
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
  readonly meter: RateMeter | undefined;
  /** Why it decides, in one sentence. */
  readonly reason: string;
}

const ownNames: ReadonlySet<string> = new Set(['default-deny', 'learning']);

/** @throws PolicyError */
export function compileRule(rule: PolicyRule, order: number, world: PolicyWorld): CompiledRule {
  if (ownNames.has(rule.name)) {
    const problem = 'decisions without a rule have this name; choose another one';
    throw new PolicyError('ERR_POLICY_FORM', { rule: rule.name, field: '' }, problem);
  }
  if (rule.effect === 'deny' && rule.rate !== undefined) {
    const place = { rule: rule.name, field: 'rate' };
    throw new PolicyError('ERR_POLICY_FORM', place, 'a rule that denies has no rate');
  }
  return {
    rule,
    order,
    subject: compileSubject(rule, world),
    resource: compileResource(rule, world),
    expiresAt: rule.expires === undefined ? Infinity : parseTime(rule.expires, rule.name),
    meter: rule.rate === undefined ? undefined : new RateMeter(parseRate(rule.rate, rule.name)),
    reason: `${describeSubject(rule.subject)} ${verbs[rule.effect]} ${describeResource(rule)}`,
  };
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
    case 'key':
      return rule.resource.operation;
    default:
      return rule.resource.fun;
  }
}

function compileResource(rule: PolicyRule, world: PolicyWorld): CompiledResource {
  const place = (field: string): Place => ({ rule: rule.name, field: `resource.${field}` });
  switch (rule.action) {
    case 'signal':
      return compileSignal(rule.resource, rule.effect, world, place);
    case 'publish':
      return compilePublish(rule.resource, world, place);
    case 'runner':
    case 'wheel':
      return byName(rule, compileCall(rule.resource, world, place));
    case 'command':
      return compileWithin(rule.resource, world, place);
    case 'mine': {
      const { fun, owner = '*' } = rule.resource;
      const ownerTest = compileTexts(owner, world, place('owner'));
      // A function may be asked for where some owner's may be read, so long as not all are denied.
      const isOpen = rule.effect === 'allow' || owner === '*';
      return {
        ...byText(fun, world, place('fun')),
        obstacle: ({ mine }) => {
          const isMeant = mine?.owner === undefined ? isOpen : ownerTest(mine.owner);
          return isMeant ? undefined : 'the owner is another one';
        },
      };
    }
    case 'file-send':
      return byText(rule.resource.path, world, place('path'));
    case 'key':
      return byText(rule.resource.operation, world, place('operation'));
    case 'subscribe':
      return byText(rule.resource.tag, world, place('tag'));
  }
}

function compileSignal(
  { tag, schema, bytes = Infinity }: SignalPattern,
  effect: PolicyRule['effect'],
  world: PolicyWorld,
  place: (field: string) => Place,
): CompiledResource {
  // A glob of wildcards alone would permit every tag; then one might as well not ask.
  if (effect === 'allow' && !namesATag(tag)) {
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
export function namesATag(glob: string): boolean {
  return /[\p{L}\p{N}]/u.test(glob.replace(/\[[^\]]*\]/g, ''));
}

function compilePublish(
  { environment = '*', ...calls }: PublishPattern,
  world: PolicyWorld,
  place: (field: string) => Place,
): CompiledResource {
  const compiled = compileWithin(calls, world, place);
  const inEnvironment = compileTexts(environment, world, place('environment'));
  return {
    ...compiled,
    obstacle: (request) => {
      const { environment: given } = request;
      if (given !== undefined && !inEnvironment(given)) return 'the environment is another one';
      return compiled.obstacle(request);
    },
  };
}

function compileWithin(
  { within, ...call }: CommandPattern,
  world: PolicyWorld,
  place: (field: string) => Place,
): CompiledResource {
  const calls = compileCall(call, world, place);
  return {
    ...calls,
    obstacle: (request) => {
      const problem = calls.obstacle(request);
      if (problem !== undefined || within === undefined) return problem;
      const isWithin = request.isWithin?.(within) === true;
      return isWithin ? undefined : `not all of the target is within ${within}`;
    },
  };
}

function compileCall(
  { fun, arguments: conditions }: CallPattern,
  world: PolicyWorld,
  place: (field: string) => Place,
): CompiledResource {
  const meets = compileArguments(conditions, world, place('arguments'));
  return {
    ...byText(fun, world, place('fun')),
    obstacle: ({ call }) =>
      call !== undefined && meets(call)
        ? undefined
        : 'the arguments are not those that it asks for',
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
      if (lacksName(action, request.text, fun)) return `it does not name ${request.text} itself`;
      return compiled.obstacle(request);
    },
  };
}

function byText(patterns: TextPatterns, world: PolicyWorld, place: Place): CompiledResource {
  return {
    keys: asList(patterns).map(keyOf),
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
