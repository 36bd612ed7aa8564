/** Writes the user-data with which machines enrol. */

import { hash, X509Certificate } from 'node:crypto';
import type { KeyPairText } from '#minion-protocol';
import { isLargerThan, trimEnd } from '#runtime';
import { BridgeError } from '../errors.ts';
import { renderUserData } from './enrol-script.ts';
import type { EnrolRequest } from './enrolment.ts';
import { requireMergeable } from './existing-user-data.ts';
import {
  buildMinionConfig,
  type ClaimServer,
  defaultConfigDir,
  type MasterAddress,
  pkiDirOf,
} from './user-data-parts.ts';

/** Name of the grain in which a minion can send its ticket. */
export const ticketGrain = 'saltbridge_ticket';

/** Addresses of the masters and of the bridge. They are the same for all machines. */
export interface BridgeAddress extends MasterAddress {
  /**
   * HTTP server of the bridge. Absent if machines reach the bridge only through metadata agents.
   */
  readonly server:
    | {
        /** URL of the HTTP API for machines: `https://…`, without `/bridge/v1`. */
        readonly url: string;
        /** Certificate of the API, in PEM. Machines trust only this certificate. */
        readonly certificate: string;
      }
    | undefined;
}

/** Interval at which a minion signs in again until its key is accepted, in seconds. */
const acceptanceWaitSeconds = 2;

/**
 * Maximum size of the options and grains of a minion together. They are written in one step, which
 * must not take long. Clouds also limit user-data to 64 KiB.
 */
const maxConfig = { values: 1000, characters: 65_536 } as const;

/**
 * Checks the parts of the user-data that a service has written. Called before a request waits for
 * others of the same minion id, because the check of large texts takes some time.
 * @throws BridgeError ERR_ENROLL_ARGS
 */
export function requireWritable({
  config,
  grains,
  beside,
  format = 'cloud-init',
}: Pick<EnrolRequest, 'beside' | 'config' | 'format' | 'grains'>): void {
  if (isLargerThan([config, grains], maxConfig)) {
    throw new BridgeError(
      'ERR_ENROLL_ARGS',
      `\`config\` and \`grains\` contain more than ${maxConfig.values} values or ${maxConfig.characters} characters; configure the minion by states instead`,
    );
  }
  if (beside !== undefined) requireMergeable(beside, format);
}

export class UserDataWriter {
  readonly #address: BridgeAddress;
  readonly #server: ClaimServer | undefined;

  /**
   * Creates a writer of user-data.
   * @throws BridgeError ERR_ENROLL_OFF if the URL or the certificate is invalid
   */
  constructor(address: BridgeAddress) {
    const { server } = address;
    this.#address = address;
    if (server === undefined) return;
    if (!URL.canParse(server.url) || new URL(server.url).protocol !== 'https:') {
      throw new BridgeError('ERR_ENROLL_OFF', 'enroll: url: must be an https URL');
    }
    this.#server = {
      url: `${trimEnd(server.url, '/')}/bridge/v1/enroll`,
      ...certificatePins(server.certificate),
    };
  }

  /**
   * Returns the user-data of a machine. Call {@link requireWritable} first.
   * @throws BridgeError ERR_ENROLL_OFF
   */
  write(
    request: EnrolRequest,
    { ticket, keys }: { readonly ticket: string; readonly keys: KeyPairText | undefined },
  ): string {
    const { id, by = 'claim', format = 'cloud-init', instance, beside } = request;
    if (format === 'none') return '';
    const { configDir = defaultConfigDir, agent = false, masters } = request;
    if (!agent && this.#server === undefined) {
      const text =
        'set `enroll: url` and `enroll: certificate`; only machines with a metadata agent work without these options';
      throw new BridgeError('ERR_ENROLL_OFF', text);
    }
    const isGrain = by === 'grain';
    const options = {
      ...(by === 'keys' ? {} : { acceptance_wait_time: acceptanceWaitSeconds }),
      ...(configDir === defaultConfigDir ? {} : { pki_dir: pkiDirOf(configDir) }),
      ...request.config,
      ...(isGrain ? { autosign_grains: [ticketGrain] } : {}),
    };
    const plan = {
      configDir,
      config: buildMinionConfig(
        id,
        masters ? { ...this.#address, masters } : this.#address,
        options,
      ),
      grains: { ...request.grains, ...(isGrain ? { [ticketGrain]: ticket } : {}) },
      claims: by === 'claim',
      ...(keys === undefined ? {} : { keys }),
      report: {
        bridge: agent ? undefined : this.#server,
        ticket,
        statesInstance: instance !== undefined,
      },
    };
    return renderUserData(format, plan, beside);
  }
}

function certificatePins(pem: string): { publicKeyPin: string; certificatePin: string } {
  try {
    const certificate = new X509Certificate(pem);
    const key = certificate.publicKey.export({ type: 'spki', format: 'der' });
    return {
      publicKeyPin: hash('sha256', key, 'base64'),
      certificatePin: certificate.fingerprint256.replaceAll(':', ''),
    };
  } catch (cause) {
    throw new BridgeError('ERR_ENROLL_OFF', 'enroll: certificate: must be a certificate in PEM', {
      cause,
    });
  }
}
