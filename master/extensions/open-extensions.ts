import type { InProcessApi, MetricFamily } from '../api/index.ts';
import type { KeyAcceptanceHook, KeyLoss } from '../auth/index.ts';
import { Collection } from './collection.ts';
import type { MasterExtension, OpenExtension } from './extension.ts';
import { createHost, type HostDeps, refuseWhileStarting } from './extension-host.ts';
import { orderExtensions } from './extension-order.ts';

interface Opened {
  readonly namespace: string;
  readonly open: OpenExtension;
}

/** Opens the extensions of a master in order, and starts them. */
export class Extensions {
  readonly collection: Collection = new Collection();
  readonly #ordered: readonly MasterExtension[];
  readonly #opened: Opened[] = [];
  #api: InProcessApi | undefined;

  /**
   * Determines the order in which the extensions are opened. Includes the further extensions that
   * their `parts` list.
   * @throws MasterError ERR_EXTENSION_CONFLICT, ERR_EXTENSION_CYCLE, ERR_EXTENSION_MISSING
   */
  constructor(extensions: readonly MasterExtension[]) {
    this.#ordered = orderExtensions(extensions.flatMap((it) => [it, ...(it.parts ?? [])]));
  }

  /** Opens the extensions in order. They are registered to be closed in reverse order. */
  async open(deps: Omit<HostDeps, 'api'>): Promise<void> {
    const { closers } = deps.context;
    const api = (): InProcessApi => this.#api ?? refuseWhileStarting();
    for (const extension of this.#ordered) {
      const { name, namespace = name } = extension;
      const opened = await extension.open(createHost(extension, { ...deps, api }));
      const open = closers.add(opened, async (it) => it.close?.());
      this.#opened.push({ namespace, open });
      this.collection.add(open, name, namespace);
      this.collection.claimMetrics(open.metrics?.() ?? [], name);
    }
  }

  /** Starts the extensions in the order of opening. */
  async start(api: InProcessApi): Promise<void> {
    this.#api = api;
    for (const { open } of this.#opened) await open.start?.();
  }

  /**
   * Returns the decision of all extensions about a key. `deny` takes precedence over `accept`, and
   * `accept` over `wait`.
   */
  readonly advice: KeyAcceptanceHook = async (offered) => {
    const given = await Promise.all(this.#opened.map(({ open }) => open.advice?.(offered)));
    return (['deny', 'accept', 'wait'] as const).find((word) => given.includes(word));
  };

  /**
   * Calls {@link OpenExtension.onKeyLost} of all extensions, because an accepted key was deleted,
   * rejected or replaced.
   */
  async loseKey(id: string, where: KeyLoss): Promise<void> {
    await Promise.all(this.#opened.map(({ open }) => open.onKeyLost?.(id, where)));
  }

  /** Returns the current metrics by namespace of the extension. */
  metrics(): ReadonlyMap<string, readonly MetricFamily[]> {
    const figures = new Map<string, MetricFamily[]>();
    for (const { namespace, open } of this.#opened) {
      const known = figures.get(namespace) ?? [];
      figures.set(namespace, [...known, ...(open.metrics?.() ?? [])]);
    }
    return figures;
  }
}
