/** Access to the intake of signals of a master, in place of minions and their rules. */

import { bridgeServices } from '#heat-bridge';
import type { MasterExtension, ServiceKey } from '#master';

type ServiceOf<K> = K extends ServiceKey<infer T> ? T : never;
type Signals = ServiceOf<typeof bridgeServices.signals>;

/** Extension that finds the intake of the bridge. */
export class SignalProbe {
  #signals: Signals | undefined;

  readonly extension: MasterExtension = {
    name: 'signal-probe',
    after: ['bridge-signals'],
    open: async (host) => {
      this.#signals = host.find(bridgeServices.signals);
      return {};
    },
  };

  get intake(): Signals['intake'] {
    if (this.#signals === undefined) throw new Error('the master has no bridge');
    return this.#signals.intake;
  }
}
