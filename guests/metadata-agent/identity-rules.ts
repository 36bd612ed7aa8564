/**
 * Rules of `bridge: guests: identity:`, for the enrolment of instances without a ticket. An
 * instance must match all conditions of a rule, and values are compared exactly.
 */

import type { Static } from 'typebox';
import Type from 'typebox';
import { BridgeOptionsError, parseSection, type SectionProblem } from '#heat-bridge';

/** Facts about an instance. A fact may have several values. */
export interface InstanceFacts {
  readonly project: readonly string[];
  /** Name of the metadata agent that identified the instance. */
  readonly agent: readonly string[];
  /** Id of the image, read from Nova. */
  readonly image: readonly string[];
  /** Ids of the networks of the instance, read from Neutron. */
  readonly network: readonly string[];
  /** Name of the availability zone, read from Nova. */
  readonly zone: readonly string[];
}

/** Rule that enrols instances. */
export interface IdentityRule {
  readonly name: string;
  readonly conditions: Partial<InstanceFacts>;
  /** Pattern of the minion id. Its placeholders make the ids of all instances in a cloud unique. */
  readonly id: string;
  /** Validity of the ticket, in seconds. Default: `enroll: ticket_lifetime`. */
  readonly ticketLifetime: number | undefined;
  /**
   * Addresses at which the instances of this rule reach the masters. Default: `enroll: masters`.
   */
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

/**
 * Facts about other sections of the configuration, against which the identity rules are checked.
 */
export interface IdentitySurroundings {
  /** Names of metadata agents. */
  readonly agents: readonly string[];
  /** Whether Nova and Neutron are configured. */
  readonly hasCloud: boolean;
  /** Whether the section `enroll` lists masters, so that enrolment is possible. */
  readonly hasEnroll: boolean;
}

/**
 * Parses the rules.
 * @throws BridgeOptionsError with every error in every rule
 */
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
    ...(agents.length > 0
      ? []
      : [
          '`agents` is required, because only a metadata agent can request user-data for an instance',
        ]),
    ...(hasEnroll
      ? []
      : ['the section `saltbridge: bridge: enroll` with the option `masters` is required']),
    // Tenants can set the id of another tenant's instance on their own port, and agents identify
    // instances by ports.
    ...(hasCloud
      ? []
      : ['the section `peers` is required, because it configures the access to Nova and Neutron']),
  ];
  return missing.map((it) => ({ key: `saltbridge:${section}`, problem: it }));
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
    note(':instance', `must set at least one of the conditions ${factNames.join(', ')}`);
  }
  if (!idForms.includes(id)) note(':id', `must be ${idForms.join(' or ')}`);
  for (const agent of conditions.agent ?? []) {
    if (!agents.includes(agent))
      note(':instance:agent', `unknown metadata agent ${agent}; add it under agents`);
  }
  return problems;
}

/**
 * Whether an instance meets the conditions of a rule. If a fact is absent from `facts`, the
 * conditions on this fact are not checked. A caller can therefore select candidates before it
 * queries the cloud.
 */
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
