import { MasterError } from '../api/index.ts';

/**
 * Typed key of a service. A service is an object that one module of a master provides and others
 * use. Both sides import the key, so that they need not import each other. Create keys with
 * {@link defineService}.
 */
export class ServiceKey<T extends object> {
  readonly name: string;
  readonly #provided = new WeakMap<Services, T>();

  constructor(name: string) {
    this.name = name;
  }

  /**
   * Returns the service with this key, or `undefined` if `services` has none.
   * @internal
   */
  of(services: Services): T | undefined {
    return this.#provided.get(services);
  }

  /**
   * Sets the service with this key in `services`.
   * @internal
   */
  set(services: Services, service: T): void {
    this.#provided.set(services, service);
  }
}

/** Creates the key of a service. Error messages contain `name`. */
export function defineService<T extends object>(name: string): ServiceKey<T> {
  return new ServiceKey<T>(name);
}

/**
 * Services of one master. The parameter `by` is the name of the calling module, for error messages.
 */
export class Services {
  readonly #providers = new Map<string, string>();
  readonly #users = new Map<string, string>();

  /**
   * Provides a service.
   * @throws MasterError ERR_EXTENSION_CONFLICT if another module provides it
   */
  provide<T extends object>(key: ServiceKey<T>, service: T, by: string): void {
    const other = this.#providers.get(key.name);
    if (other !== undefined) throw conflict('service', key.name, other, by);
    this.#providers.set(key.name, by);
    key.set(this, service);
  }

  /** Returns a service, or `undefined` if no module provides it. */
  find<T extends object>(key: ServiceKey<T>, by: string): T | undefined {
    const service = key.of(this);
    if (service !== undefined && !this.#users.has(key.name)) this.#users.set(key.name, by);
    return service;
  }

  /**
   * Returns a service.
   * @throws MasterError ERR_EXTENSION_MISSING if no module provides it
   */
  use<T extends object>(key: ServiceKey<T>, by: string): T {
    const service = this.find(key, by);
    if (service !== undefined) return service;
    const problem = `the service ${key.name}, which ${by} uses, is not provided`;
    throw new MasterError(
      'ERR_EXTENSION_MISSING',
      `${problem}; add the extension that provides it`,
    );
  }

  /**
   * Replaces a service by a wrapper.
   * @throws MasterError ERR_EXTENSION_MISSING; ERR_EXTENSION_CONFLICT if another module already
   * uses it
   */
  decorate<T extends object>(key: ServiceKey<T>, wrap: (inner: T) => T, by: string): void {
    const user = this.#users.get(key.name);
    if (user !== undefined && user !== by) throw conflict('service', key.name, user, by);
    const inner = key.of(this);
    if (inner === undefined) this.use(key, by);
    else key.set(this, wrap(inner));
  }
}

/** Returns the ERR_EXTENSION_CONFLICT error for two modules that use the same name. */
export function conflict(thing: string, name: string, first: string, second: string): MasterError {
  const problem = `${thing} ${name}: both ${first} and ${second} define it`;
  return new MasterError('ERR_EXTENSION_CONFLICT', `${problem}; remove one of them`);
}
