/** Returns an object like `whole` with another value of one member. */
export function withMember<T extends object>(whole: T, name: keyof T, value: unknown): T {
  return new Proxy(whole, {
    get: (target, key) => {
      if (key === name) return value;
      const member: unknown = Reflect.get(target, key);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}
