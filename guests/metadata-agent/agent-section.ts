/** Options `agents`, `identity` and `vendordata` below `saltbridge: bridge: guests:`. */

import Type from 'typebox';
import { BridgeOptionsError, parseSection } from '#heat-bridge';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });

/** Secrets of metadata agents by their names: each in a file of its own. */
const AgentsSection = Type.Record(
  Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }),
  Type.Object({ secret_file: Text }, strict),
  strict,
);
/** Rules by which instances enrol without a ticket, each by its name. */
const IdentitySection = Type.Record(
  Type.String({ pattern: '^[A-Za-z0-9 ._-]{1,64}$' }),
  Type.Unknown(),
  strict,
);
const VendordataSection = Type.Object(
  {
    /** Id of minions; `{uuid}`, `{name}` and `{project}` stand for those of the instance. */
    id: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    /** Seconds that a ticket is valid, from the first request on. Default: `enroll: ticket_lifetime`. */
    ticket_lifetime: Type.Optional(Type.Integer({ minimum: 60, maximum: 86_400 })),
    /** Whether instances claim by the metadata agent of their network. */
    agent: Type.Optional(Type.Boolean()),
    /** Addresses of the masters, as instances reach them. Default: `enroll: masters`. */
    masters: Type.Optional(Type.Array(Text, { minItems: 1, maxItems: 16 })),
  },
  strict,
);

/** Returns the files of the agents' secrets by name. @throws BridgeError ERR_BRIDGE_OPTIONS */
export function parseAgents(given: unknown): ReadonlyMap<string, string> {
  const agents = parseSection('bridge:guests:agents', AgentsSection, given ?? {});
  return new Map(Object.entries(agents).map(([name, it]) => [name, it.secret_file]));
}

/** Returns the rules, whose form has not been checked. @throws BridgeError ERR_BRIDGE_OPTIONS */
export function parseIdentities(given: unknown): Readonly<Record<string, unknown>> {
  return parseSection('bridge:guests:identity', IdentitySection, given ?? {});
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
export function parseVendordata(given: unknown) {
  const section = parseSection('bridge:guests:vendordata', VendordataSection, given);
  const { id = '{uuid}', ticket_lifetime: ticketLifetime, agent = false, masters } = section;
  if (id.includes('{uuid}') || (id.includes('{name}') && id.includes('{project}'))) {
    return { id, ticketLifetime, agent, masters };
  }
  const problem = 'expected {uuid}, or {name} and {project}: two instances may not share an id';
  throw new BridgeOptionsError([{ key: 'saltbridge:bridge:guests:vendordata:id', problem }]);
}
