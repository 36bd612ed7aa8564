/**
 * Rules by which instances enrol without a ticket, under `bridge: guests: identity:`, each by its
 * name. All conditions of a rule must hold; texts are compared as they are.
 */

import type { Static } from 'typebox';
import Type from 'typebox';
import { BridgeOptionsError, parseSection, type SectionProblem } from '#heat-bridge';

/** What is known of an instance: of each, all that it has. */
export interface InstanceFacts {
  readonly project: readonly string[];
  /** The metadata agent that asks for it. */
  readonly agent: readonly string[];
  /** From Nova and Neutron. */
  readonly image: readonly string[];
  readonly network: readonly string[];
  readonly zone: readonly string[];
}

/** A rule. */
export interface IdentityRule {
  readonly name: string;
  readonly conditions: Partial<InstanceFacts>;
  /** Of the minion: a form that gives no two instances of a cloud one id by accident. */
  readonly id: string;
  /** Seconds. Default: `enroll: ticket_lifetime`. */
  readonly ticketLifetime: number | undefined;
  /** Of the masters, as these instances reach them. Default: `enroll: masters`. */
  readonly masters: readonly string[] | undefined;
}

const strict = { additionalProperties: false };
const Value = Type.String({ minLength: 1, maxLength: 255 });
const Values = Type.Optional(
  Type.Union([Value, Type.Array(Value, { minItems: 1, maxItems: 1000 })]),
);
const RuleSchema = Type.Object(
  {
    instance: Type.Object(
      { project: Values, agent: Values, image: Values, network: Values, zone: Values },
      strict,
    ),
    id: Type.Optional(Type.String()),
    ticket_lifetime: Type.Optional(Type.Integer({ minimum: 60, maximum: 86_400 })),
    masters: Type.Optional(Type.Array(Value, { minItems: 1, maxItems: 16 })),
  },
  strict,
);

const idForms: readonly string[] = ['{uuid}', '{name}.{project}'];

const section = 'bridge:guests:identity';

/** What else the section `guests` says. */
export interface IdentitySurroundings {
  /** Names of metadata agents. */
  readonly agents: readonly string[];
  /** Whether Nova and Neutron are read. */
  readonly hasCloud: boolean;
  /** Whether machines are enrolled, and by which masters. */
  readonly hasEnroll: boolean;
}

/** @throws BridgeOptionsError with every mistake in every rule */
export function parseIdentityRules(
  given: Readonly<Record<string, unknown>>,
  surroundings: IdentitySurroundings,
): readonly IdentityRule[] {
  const problems: SectionProblem[] = [];
  const rules: IdentityRule[] = [];
  if (Object.keys(given).length > 0) problems.push(...missingParts(surroundings));
  for (const [name, value] of Object.entries(given)) {
    try {
      const rule = toRule(name, parseSection(`${section}:${name}`, RuleSchema, value));
      problems.push(...problemsOf(rule, surroundings));
      rules.push(rule);
    } catch (error) {
      if (!(error instanceof BridgeOptionsError)) throw error;
      problems.push(...error.problems);
    }
  }
  if (problems.length > 0) throw new BridgeOptionsError(problems);
  return rules;
}

function toRule(
  name: string,
  { instance, id = '{uuid}', ticket_lifetime: ticketLifetime, masters }: Static<typeof RuleSchema>,
): IdentityRule {
  const lists = Object.entries(instance).map(([fact, values]) => [fact, [values].flat()] as const);
  return { name, conditions: Object.fromEntries(lists), id, ticketLifetime, masters };
}

function missingParts({
  agents,
  hasCloud,
  hasEnroll,
}: IdentitySurroundings): readonly SectionProblem[] {
  const missing = [
    ...(agents.length > 0 ? [] : ['agents beside it: nobody else asks for an instance']),
    ...(hasEnroll ? [] : ['the section bridge: enroll with masters: nobody is enrolled without']),
    // A tenant can give a port the id of another's instance, and an agent goes by ports.
    ...(hasCloud ? [] : ['peers beside it, which says where Nova and Neutron are']),
  ];
  return missing.map((it) => ({ key: `saltbridge:${section}`, problem: `expected ${it}` }));
}

function problemsOf(
  { name, conditions, id }: IdentityRule,
  { agents }: IdentitySurroundings,
): readonly SectionProblem[] {
  const problems: SectionProblem[] = [];
  const note = (place: string, problem: string): void => {
    problems.push({ key: `saltbridge:${section}:${name}${place}`, problem });
  };
  if (Object.keys(conditions).length === 0) {
    note(':instance', `expected one of ${factNames.join(', ')}`);
  }
  if (!idForms.includes(id)) note(':id', `expected ${idForms.join(' or ')}`);
  for (const agent of conditions.agent ?? []) {
    if (!agents.includes(agent)) note(':instance:agent', `there is no ${agent} under agents`);
  }
  return problems;
}

/** Whether a rule means an instance, by these facts of it alone. */
export function matchesRule(
  { conditions }: IdentityRule,
  facts: Readonly<Partial<InstanceFacts>>,
): boolean {
  return factNames.every((fact) => {
    const own = facts[fact];
    return own === undefined || (conditions[fact]?.some((it) => own.includes(it)) ?? true);
  });
}

const factNames = ['project', 'agent', 'image', 'network', 'zone'] as const;
