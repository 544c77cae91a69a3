// Maps a caller's field name to the names that schema.org and meta tags use for it.

export function plainName(name: string): string {
  return name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
}

const groups: [names: string, paths: string][] = [
  ['title headline name heading producttitle productname articletitle', 'name headline title'],
  [
    'price amount cost currentprice saleprice',
    'price offers.price offers.lowPrice offers.priceSpecification.price priceamount',
  ],
  [
    'currency pricecurrency currencycode',
    'priceCurrency offers.priceCurrency offers.priceSpecification.priceCurrency pricecurrency',
  ],
  ['availability instock available stock stockstatus', 'availability offers.availability'],
  ['condition itemcondition', 'itemCondition offers.itemCondition'],
  ['seller merchant', 'offers.seller.name seller.name'],
  ['brand brandname manufacturer', 'brand.name brand manufacturer.name manufacturer'],
  [
    'rating ratingvalue stars score averagerating',
    'aggregateRating.ratingValue reviewRating.ratingValue ratingValue starRating.ratingValue',
  ],
  [
    'reviewcount reviewscount numberofreviews ratingcount ratingscount numreviews',
    'aggregateRating.reviewCount aggregateRating.ratingCount reviewCount',
  ],
  ['author authorname authors byline writer creator', 'author.name author creator.name creator'],
  [
    'published publishedat publisheddate publishdate datepublished publicationdate date posted ' +
      'postedat dateposted',
    'datePublished datePosted dateCreated uploadDate published',
  ],
  ['modified modifiedat updated updatedat lastupdated datemodified', 'dateModified modified'],
  [
    'image imageurl picture photo thumbnail thumbnailurl images',
    'image.url image.contentUrl image thumbnailUrl',
  ],
  ['url link href pageurl', 'url'],
  ['body content articlebody fulltext text', 'articleBody text reviewBody'],
  ['summary description abstract excerpt', 'description abstract'],
  ['publisher publishername', 'publisher.name'],
  ['sitename site', 'siteName site_name publisher.name'],
  ['category section', 'category articleSection'],
  ['tags keywords', 'keywords'],
  ['language lang', 'inLanguage language'],
  ['phone telephone phonenumber', 'telephone contactPoint.telephone'],
  ['email emailaddress', 'email contactPoint.email'],
  ['street streetaddress', 'address.streetAddress'],
  [
    'city town locality',
    'address.addressLocality jobLocation.address.addressLocality location.address.addressLocality',
  ],
  ['region state province', 'address.addressRegion jobLocation.address.addressRegion'],
  ['zip zipcode postcode postalcode', 'address.postalCode'],
  ['country', 'address.addressCountry.name address.addressCountry'],
  [
    'company companyname employer hiringorganization organization',
    'hiringOrganization.name worksFor.name',
  ],
  ['jobtitle position role', 'title jobTitle'],
  ['salary', 'baseSalary.value.value baseSalary.value baseSalary'],
  ['employmenttype jobtype', 'employmentType'],
  [
    'location venue place',
    'location.name jobLocation.address.addressLocality location.address location',
  ],
  ['start startdate startsat starttime', 'startDate'],
  ['end enddate endsat endtime', 'endDate'],
  ['ingredients ingredient', 'recipeIngredient ingredients'],
  ['instructions steps directions', 'recipeInstructions step'],
  ['preptime', 'prepTime'],
  ['cooktime', 'cookTime'],
  ['totaltime duration', 'totalTime duration'],
  ['servings yield', 'recipeYield'],
  ['calories', 'nutrition.calories'],
  ['question', 'name'],
  ['answer', 'acceptedAnswer.text suggestedAnswer.text'],
  ['questions faq faqs', 'mainEntity'],
  ['reviews', 'review'],
  ['isbn isbn13', 'isbn workExample.isbn gtin13'],
  ['sku productid', 'sku productID mpn'],
  ['openinghours hours', 'openingHours'],
];

const pathsByName = new Map<string, string[]>();
for (const [names, paths] of groups) {
  for (const name of names.split(' ')) pathsByName.set(name, paths.split(' '));
}

/** Returns the paths where a field may be found, the caller's own name first. */
export function pathsFor(name: string): string[] {
  return [name, ...(pathsByName.get(plainName(name)) ?? [])];
}
