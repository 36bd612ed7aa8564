/** Options of Keystone: `saltbridge: bridge: keystone:`, and sections of the same form. */

import Type from 'typebox';
import {
  type AllowedEndpoint,
  type ConfiguredEndpoint,
  type EntityReference,
  parseAllowedEndpoints,
  readEndpoint,
} from '#runtime';
import { BridgeOptionsError, parseSection } from '../options.ts';

const OptionText = Type.String({ minLength: 1, maxLength: 4096 });

const KeystoneSection = Type.Object(
  {
    url: Type.String({
      pattern: '^https?://.+/v3/?$',
      maxLength: 4096,
      description: 'an address with http or https that ends with /v3',
    }),
    /** As those of signals' endpoints. */
    addresses: Type.Optional(Type.Array(OptionText)),
    ca_file: Type.Optional(OptionText),
    /** Of a user who may look at others' tokens: in Keystone's own policy a `service` or `admin`. */
    username: OptionText,
    password: OptionText,
    user_domain: Type.Optional(OptionText),
    project: OptionText,
    project_domain: Type.Optional(OptionText),
    /** Seconds that Keystone has to answer. */
    timeout: Type.Optional(Type.Number({ minimum: 0.1, maximum: 60 })),
  },
  { additionalProperties: false },
);

/** Options of Keystone, with their defaults. */
export type KeystoneOptions = Readonly<ReturnType<typeof parseKeystoneOptions>>;

const defaultDomain = 'Default';

/** @param name - of the section in errors @throws BridgeError ERR_BRIDGE_OPTIONS */
export function parseKeystoneOptions(given: unknown, name = 'bridge:keystone') {
  const section = parseSection(name, KeystoneSection, given);
  const { url, username, password, project, timeout = 5 } = section;
  const inDomain = (name: string, domain = defaultDomain): EntityReference => ({
    name,
    domain: { name: domain },
  });
  return {
    /** Ends with `/v3`. */
    url,
    /** The one service that is asked. */
    endpoints: keystoneEndpoint(section, name),
    user: { ...inDomain(username, section.user_domain), password },
    project: inDomain(project, section.project_domain),
    /** Milliseconds for one exchange. */
    timeoutMs: timeout * 1000,
  };
}

function keystoneEndpoint(
  section: ConfiguredEndpoint,
  name: string,
): ReadonlyMap<string, AllowedEndpoint> {
  try {
    return parseAllowedEndpoints([readEndpoint(section)]);
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : 'unreadable';
    throw new BridgeOptionsError([{ key: `saltbridge:${name}`, problem }], { cause });
  }
}
