/**
 * Options in the section `saltbridge: bridge: keystone:`, and in other sections of the same form.
 */

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
      description: 'an http or https URL that ends with /v3',
    }),
    /** IP addresses and networks to which the host name of the URL may resolve. */
    addresses: Type.Optional(Type.Array(OptionText)),
    ca_file: Type.Optional(OptionText),
    /**
     * Name of a user that may read tokens of other users. Keystone's default policy permits this to
     * users with the role `service` or `admin`.
     */
    username: OptionText,
    password: OptionText,
    user_domain: Type.Optional(OptionText),
    project: OptionText,
    project_domain: Type.Optional(OptionText),
    /** Timeout of a request to Keystone, in seconds. Default: 5. */
    timeout: Type.Optional(Type.Number({ minimum: 0.1, maximum: 60 })),
  },
  { additionalProperties: false },
);

/** Options of Keystone, with their defaults. */
export type KeystoneOptions = Readonly<ReturnType<typeof parseKeystoneOptions>>;

const defaultDomain = 'Default';

/**
 * Parses the section into options.
 * @param name - name of the section in error messages
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseKeystoneOptions(given: unknown, name = 'bridge:keystone') {
  const section = parseSection(name, KeystoneSection, given);
  const { url, username, password, project, timeout = 5 } = section;
  const inDomain = (name: string, domain = defaultDomain): EntityReference => ({
    name,
    domain: { name: domain },
  });
  return {
    /** URL of Keystone, which ends with `/v3`. */
    url,
    /** Endpoints to which requests may be sent: only Keystone. */
    endpoints: keystoneEndpoint(section, name),
    user: { ...inDomain(username, section.user_domain), password },
    project: inDomain(project, section.project_domain),
    /** Timeout of a request, in milliseconds. */
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
