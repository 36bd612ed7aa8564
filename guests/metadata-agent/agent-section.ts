/** Options `agents`, `identity` and `vendordata` in the section `saltbridge: bridge: guests:`. */

import Type from 'typebox';
import { BridgeOptionsError, parseSection } from '#heat-bridge';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });

/** Files with the secrets of metadata agents, by name of the agent. */
const AgentsSection = Type.Record(
  Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }),
  Type.Object({ secret_file: Text }, strict),
  strict,
);
/** Rules for the enrolment of instances without a ticket, by name. */
const IdentitySection = Type.Record(
  Type.String({ pattern: '^[A-Za-z0-9 ._-]{1,64}$' }),
  Type.Unknown(),
  strict,
);
const VendordataSection = Type.Object(
  {
    /**
     * Pattern of minion ids. `{uuid}`, `{name}` and `{project}` are replaced with the values of the
     * instance. Default: `{uuid}`.
     */
    id: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    /**
     * Validity of a ticket, in seconds after the first request for the vendordata of its instance.
     * Default: `enroll: ticket_lifetime`.
     */
    ticket_lifetime: Type.Optional(Type.Integer({ minimum: 60, maximum: 86_400 })),
    /**
     * Whether instances claim their tickets through the metadata agent of their network. Default:
     * false.
     */
    agent: Type.Optional(Type.Boolean()),
    /** Addresses at which instances reach the masters. Default: `enroll: masters`. */
    masters: Type.Optional(Type.Array(Text, { minItems: 1, maxItems: 16 })),
  },
  strict,
);

/**
 * Returns the files with the agents' secrets, by agent name.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseAgents(given: unknown): ReadonlyMap<string, string> {
  const agents = parseSection('bridge:guests:agents', AgentsSection, given ?? {});
  return new Map(Object.entries(agents).map(([name, it]) => [name, it.secret_file]));
}

/**
 * Returns the identity rules by name. The rules themselves are not validated yet.
 * @throws BridgeError ERR_BRIDGE_OPTIONS if the section is not a map of rules
 */
export function parseIdentities(given: unknown): Readonly<Record<string, unknown>> {
  return parseSection('bridge:guests:identity', IdentitySection, given ?? {});
}

/**
 * Parses the options of vendordata.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseVendordata(given: unknown) {
  const section = parseSection('bridge:guests:vendordata', VendordataSection, given);
  const { id = '{uuid}', ticket_lifetime: ticketLifetime, agent = false, masters } = section;
  if (id.includes('{uuid}') || (id.includes('{name}') && id.includes('{project}'))) {
    return { id, ticketLifetime, agent, masters };
  }
  const problem = 'must contain {uuid}, or {name} and {project}, so that ids are unique';
  throw new BridgeOptionsError([{ key: 'saltbridge:bridge:guests:vendordata:id', problem }]);
}
