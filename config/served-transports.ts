/** Transports that a configuration enables, with their ports. */

import type { MasterConfig } from './options.ts';
import { type OwnTransportOptions, type TransportName, transports } from './transport-options.ts';

/** Options that `transport_opts` can set for each transport. */
export type TransportOptions = Pick<MasterConfig, keyof OwnTransportOptions>;

/** Transport, with the options that apply to it. */
export interface ServedTransport extends TransportOptions {
  readonly name: TransportName;
  /**
   * Ports to which relays connect (option `saltbridge: relay:`). Only the transport in the option
   * `transport` has them; for all others, the value is `null`.
   */
  readonly relay: MasterConfig['relay'];
}

/** Returns the enabled transports: `transport` first, then the others of `transport_opts`. */
export function servedTransports(
  config: TransportOptions & Pick<MasterConfig, 'transport' | 'transportOpts' | 'relay'>,
): readonly ServedTransport[] {
  const { transport, transportOpts: opts } = config;
  const names = new Set<TransportName>([transport]);
  for (const name of transports) if (opts[name] !== undefined) names.add(name);
  return Array.from(names, (name) => {
    const relay = name === transport ? config.relay : null;
    return { ...config, ...opts[name], name, relay };
  });
}

/** A port to bind, with the name of its option. */
interface OptionPort {
  readonly option: string;
  readonly host: string;
  readonly port: number;
}

/**
 * Returns the ports that a transport binds. Omits a port with the number 0, because the operating
 * system then chooses a free port.
 */
export function portsOf({
  interface: host,
  publishPort,
  retPort,
  relay,
}: ServedTransport): readonly OptionPort[] {
  const own = [
    { option: 'publish_port', host, port: publishPort },
    { option: 'ret_port', host, port: retPort },
  ];
  const at = relay?.interface ?? host;
  const relayed =
    relay === null
      ? []
      : [
          { option: 'relay:publish_port', host: at, port: relay.publishPort },
          { option: 'relay:ret_port', host: at, port: relay.retPort },
        ];
  return [...own, ...relayed].filter(({ port: number }) => number !== 0);
}

/**
 * If two listeners would use the same port, returns a description of this port. Otherwise returns
 * `undefined`.
 */
export function findSharedPort(transports: readonly ServedTransport[]): string | undefined {
  const taken = new Map<string, string>();
  for (const transport of transports) {
    for (const { option, host, port: number } of portsOf(transport)) {
      const place = `${host} ${number}`;
      const claim = `${option} of ${transport.name}`;
      const other = taken.get(place);
      if (other !== undefined) return `${other} and ${claim}`;
      taken.set(place, claim);
    }
  }
  return undefined;
}
