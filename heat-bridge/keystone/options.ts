/** `saltbridge: bridge: keystone:`: which Keystone vouches for tokens, and as whom it is asked. */
import Type from '#typebox';
import type { EntityReference } from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import { parseSection } from '../options.ts';
import { type ConfiguredEndpoint, readEndpoint } from '../outgoing/configured-endpoint.ts';
import { type ListedEndpoint, listEndpoints } from '../outgoing/endpoints.ts';

const Text = Type.String({ minLength: 1, maxLength: 4096 });

const Section = Type.Object(
  {
    /** Ends with `/v3`. */
    url: Type.String({ pattern: '^https?://.+/v3/?$', maxLength: 4096 }),
    /** As those of signals' endpoints. */
    addresses: Type.Optional(Type.Array(Text)),
    ca_file: Type.Optional(Text),
    /** Of a user who may look at others' tokens: in Keystone's own policy a `service` or `admin`. */
    username: Text,
    password: Text,
    user_domain: Type.Optional(Text),
    project: Text,
    project_domain: Type.Optional(Text),
    /** Seconds that Keystone has to answer. */
    timeout: Type.Optional(Type.Number({ minimum: 0.1, maximum: 60 })),
  },
  { additionalProperties: false },
);

/** See the section. */
export interface KeystoneOptions {
  /** Ends with `/v3`. */
  readonly url: string;
  /** The one service that is asked. */
  readonly endpoints: ReadonlyMap<string, ListedEndpoint>;
  readonly user: EntityReference & { readonly password: string };
  readonly project: EntityReference;
  /** Milliseconds for one exchange. Default 5,000. */
  readonly timeoutMs: number;
}

const usualDomain = 'Default';

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
export function keystoneOptions(given: unknown): KeystoneOptions {
  const section = parseSection('bridge:keystone', Section, given);
  const { url, username, password, project, timeout = 5 } = section;
  const inDomain = (name: string, domain = usualDomain): EntityReference => ({
    name,
    domain: { name: domain },
  });
  return {
    url,
    endpoints: listed(section),
    user: { ...inDomain(username, section.user_domain), password },
    project: inDomain(project, section.project_domain),
    timeoutMs: timeout * 1000,
  };
}

function listed(section: ConfiguredEndpoint): ReadonlyMap<string, ListedEndpoint> {
  try {
    return listEndpoints([readEndpoint(section)]);
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : 'unreadable';
    throw new BridgeError('ERR_BRIDGE_OPTIONS', `saltbridge:bridge:keystone: ${problem}`, {
      cause,
    });
  }
}
