import test from 'ava';
import { loadOptionalPackage, SaltbridgeError } from '#runtime';

test('a package that is not installed is named, with what needs it and how to install it', async (t) => {
  const name: string = 'a-package-that-is-not-installed';
  const error = await t.throwsAsync(
    loadOptionalPackage(name, 'eauth test', () => import(name)),
    { instanceOf: SaltbridgeError },
  );
  t.is(error.code, 'ERR_PACKAGE_MISSING');
  t.regex(error.message, /^eauth test needs .*npm install a-package-that-is-not-installed$/);
});

test('any other failure of a package is passed on unchanged', async (t) => {
  const failure = new Error('broken');
  const error = await t.throwsAsync(
    loadOptionalPackage('some', 'this', () => Promise.reject(failure)),
  );
  t.is(error, failure);
});
